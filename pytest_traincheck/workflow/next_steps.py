"""What to type after a failed check: the commands that reproduce it and that say it was intended."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_traincheck import observing
from pytest_traincheck.check.result import CheckResult, Commands, Outcome
from pytest_traincheck.config import STORED, Config, ConfigError, load
from pytest_traincheck.launch.git import GitError, git
from pytest_traincheck.relations.registry import in_session_only

PLACEHOLDER = "..."
"""Stands for what only a person can say; `traincheck accept` refuses it."""

ACCEPTED_DAYS = 30
"""How long an exception lasts that is accepted by the command as it is printed."""


def with_commands(result: CheckResult, config: Config, golden: str) -> CheckResult:
    """The result with its commands, where it has incidents. `golden` is `stored`, a commit's hash, or a directory."""
    if result.outcome is not Outcome.FAIL or (not result.incidents and golden != STORED):
        return result
    where = _configuration(config)
    live = golden if golden != STORED or config.golden != STORED else ""
    if _needs_pytest(result):
        accept = pytest_words(result, "--traincheck-refresh", _accepting(result)) if golden == STORED else None
        again = ("--traincheck-golden", shlex.quote(live)) if live else ()
        reproduce = pytest_words(result, "--traincheck", (*again, *_strict(result, "--traincheck-strict")))
        return replace(result, commands=Commands(reproduce, accept or accept_words(result, config.root, where)))
    accept = refresh_words(result, where) if golden == STORED else accept_words(result, config.root, where)
    return replace(result, commands=Commands(check_words(result, live, where), accept))


def with_commands_at(result: CheckResult, config: Config, golden: str, commit: str) -> CheckResult:
    """The same for a result of another commit than the one that is checked out: that comes first."""
    result = with_commands(result, config, golden)
    if result.commands is None:
        return result
    checkout = ("git", "checkout", "--detach", commit, "&&")
    return replace(result, commands=replace(result.commands, reproduce=(*checkout, *result.commands.reproduce)))


def with_upgrade_commands(result: CheckResult, config: Config, environment: Sequence[str], golden: str) -> CheckResult:
    """The same for new libraries. `environment` are the options that say which, `golden` is a commit or empty."""
    if not result.incidents:
        return result
    where = _configuration(config)
    words = ["traincheck", "upgrade", result.pipeline]
    for option, value in zip(environment[::2], environment[1::2], strict=True):
        words += [option, shlex.quote(value)]
    words += ["--golden", shlex.quote(golden)] if golden else []
    return replace(result, commands=Commands((*words, *where), accept_words(result, config.root, where)))


def check_words(result: CheckResult, golden: str = "", where: Sequence[str] = ()) -> tuple[str, ...]:
    """The check of one pipeline again, against the configured golden or that of a commit or directory."""
    live = ("--golden", shlex.quote(golden)) if golden else ()
    return ("traincheck", "check", shlex.quote(result.pipeline), *live, *_strict(result, "--strict"), *where)


def pytest_words(result: CheckResult, mode: str, options: Sequence[str]) -> tuple[str, ...]:
    """One pipeline under pytest, where a conftest is read."""
    return ("pytest", mode, "--traincheck-pipeline", shlex.quote(result.pipeline), *options)


def refresh_words(result: CheckResult, where: Sequence[str] = ()) -> tuple[str, ...]:
    """A refresh of the stored golden that takes every incident of the result."""
    named = [word for identity in _ids(result) for word in ("--accept", identity)]
    name = shlex.quote(result.pipeline)
    return ("traincheck", "refresh", name, *named, "--reason", f'"{PLACEHOLDER}"', *where)


def accept_words(result: CheckResult, root: Path, where: Sequence[str] = ()) -> tuple[str, ...]:
    """Exceptions on file for every incident of the result; the owner is git's user in `root`."""
    name = shlex.quote(result.pipeline)
    terms = ("--owner", _owner(root), "--reason", f'"{PLACEHOLDER}"', "--expires", _last_day())
    return ("traincheck", "accept", *_ids(result), "--pipeline", name, *terms, *where)


def fixture_commands(result: CheckResult, test: str) -> Commands:
    """For training inside of a test; `test` is its node id, as it is typed where pytest was started."""
    place = shlex.quote(test)
    return Commands(("pytest", place), ("pytest", "--traincheck-refresh", place, *_accepting(result)))


def _needs_pytest(result: CheckResult) -> bool:
    """Whether rules of the golden rest on a relation of a conftest, or a run on what one wants observed, which the
    standalone commands do not read.
    """
    known = in_session_only()
    return bool(observing.in_session_only()) or any(item.invariant.relation in known for item in result.verdicts)


def _accepting(result: CheckResult) -> tuple[str, ...]:
    return tuple(word for identity in _ids(result) for word in ("--traincheck-accept", identity))


def _strict(result: CheckResult, option: str) -> tuple[str, ...]:
    return (option,) if any(warning.fails for warning in result.warnings) else ()


def _ids(result: CheckResult) -> list[str]:
    return [shlex.quote(incident.id) for incident in result.incidents]


def _configuration(config: Config) -> list[str]:
    """How to name the configuration, where it is not the one that would be found."""
    here = Path.cwd()
    try:
        if load(here).source == config.source:
            return []
    except ConfigError:
        pass
    inside = config.source.is_relative_to(here)
    return ["--config", shlex.quote(str(config.source.relative_to(here) if inside else config.source))]


def _owner(root: Path) -> str:
    try:
        name = " ".join(git(root, "config", "user.name").split())
    except GitError:
        name = ""
    return shlex.quote(name) if name.isprintable() and name else f'"{PLACEHOLDER}"'


def _last_day() -> str:
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return (today + datetime.timedelta(days=ACCEPTED_DAYS)).isoformat()
