"""What a command adds to a history: its results, with where the golden came from and on which branch it ran."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from pytest_traincheck.check.result import CheckResult, Outcome, Verdict
from pytest_traincheck.config import STORED, Config, ConfigError, load
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.store import golden_path
from pytest_traincheck.history.record import Broke, Entry, Exempted, Origin, Record
from pytest_traincheck.history.store import append
from pytest_traincheck.history.story import SELFTEST
from pytest_traincheck.launch.git import GitError, git
from pytest_traincheck.relations.stored import read_golden
from pytest_traincheck.selftest.result import Fate, SelftestResult

# What the services set for the branch of a change, and then for that of a push.
_BRANCHES = ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "CHANGE_BRANCH", "BRANCH_NAME")


def note_checks(path: Path, command: str, config: Config, results: Sequence[CheckResult], golden: str = "") -> None:
    """Add what a check came to. `golden` is what it was against, where that is not the configured one.

    Raises `HistoryError` when the file cannot be written.
    """
    stored = (golden or config.golden) == STORED
    _note(path, command, config, [_entry(result, config, stored=stored) for result in results])


def note_selftests(path: Path, config: Config, results: Sequence[SelftestResult]) -> None:
    """Add kill rates. Raises `HistoryError` when the file cannot be written."""
    _note(path, SELFTEST, config, [_selftest_entry(result) for result in results])


def sentences() -> Mapping[str, str]:
    """Sentences of rules by id, as far as goldens of the configuration at hand have them."""
    found: dict[str, str] = {}
    with suppress(ConfigError):
        config = load(Path.cwd(), None)
        for name in config.pipelines:
            with suppress(GoldenError):
                rules = read_golden(golden_path(config.store, name)).invariants
                found.update((rule.id, rule.sentence) for rule in rules)
    return found


def _note(path: Path, command: str, config: Config, entries: Sequence[Entry]) -> None:
    worst = (Outcome.ERROR, Outcome.FAIL, Outcome.PASS)
    known = {entry.verdict for entry in entries} or {Outcome.ERROR}
    verdict = next(outcome for outcome in worst if outcome in known)
    when = datetime.now(timezone.utc)
    commit, branch = _git(config.root, "rev-parse", "HEAD"), _branch(config.root)
    append(path, Record(when, command, commit, branch, verdict, tuple(entries)))


def _entry(result: CheckResult, config: Config, *, stored: bool) -> Entry:
    timing, coverage = result.timing, result.coverage
    return Entry(
        result.pipeline,
        result.outcome,
        _origin(result, config, stored=stored),
        len(result.verdicts),
        tuple(
            Broke(
                incident.id, incident.cause.title, incident.cause.invariant.relation, incident.kind.value,
                incident.cause.invariant.subject, incident.cause.source,
            )
            for incident in result.incidents
        ),
        tuple(
            Exempted(item.invariant.id, item.invariant.sentence, item.reason)
            for item in result.verdicts
            if item.verdict is Verdict.ACCEPTED
        ),
        tuple(item.invariant.id for item in result.verdicts if item.verdict is Verdict.NOT_TRIGGERED),
        tuple(error.message for error in result.errors),
        coverage.share if coverage is not None and coverage.comparisons else None,
        {
            "golden": round(timing.golden_run_s, 3),
            "candidate": round(timing.candidate_run_s, 3),
            "check": round(timing.check_s, 3),
        },
    )  # fmt: skip


def _selftest_entry(result: SelftestResult) -> Entry:
    survivors = tuple(mutant.kind.name for mutant in result.of(Fate.SURVIVED))
    rate = result.kill_rate if result.is_measured else None
    return Entry(
        result.pipeline,
        result.outcome,
        rules=len(result.unchanged.verdicts),
        errors=tuple(error.message for error in result.unchanged.errors),
        seconds={"selftest": round(result.seconds, 3)},
        kill_rate=rate,
        survivors=survivors,
    )


def _origin(result: CheckResult, config: Config, *, stored: bool) -> Origin:
    """Of a stored golden also why it was learned, and who committed it."""
    path = golden_path(config.store, result.pipeline)
    if not stored or not path.is_file():
        return Origin(result.golden.commit)
    try:
        reason = read_golden(path).reason
    except GoldenError:
        reason = ""
    return Origin(result.golden.commit, reason, _git(path.parent, "log", "-1", "--format=%an", "--", path.name))


def _branch(root: Path) -> str:
    named = next((os.environ[name] for name in _BRANCHES if os.environ.get(name)), "")
    return named or _git(root, "rev-parse", "--abbrev-ref", "HEAD")


def _git(directory: Path, *words: str) -> str:
    with suppress(GitError):
        return git(directory, *words)
    return ""
