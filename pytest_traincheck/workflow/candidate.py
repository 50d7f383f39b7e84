"""The candidate side: one run, checked against a golden."""

from __future__ import annotations

import datetime
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_traincheck.check.result import (
    CheckResult,
    Coverage,
    InvariantVerdict,
    RunError,
    SideInfo,
    Timing,
    Verdict,
    Warned,
)
from pytest_traincheck.config import Config
from pytest_traincheck.golden import store
from pytest_traincheck.golden.chance import chance
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.launch.metadata import read_environment
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.report.json_report import write_json
from pytest_traincheck.rules.model import Kind
from pytest_traincheck.text import plural
from pytest_traincheck.workflow.engine import Engine
from pytest_traincheck.workflow.policy import Rules, judge
from pytest_traincheck.workflow.record_all import attempt
from pytest_traincheck.workflow.runs import (
    CANDIDATE,
    GOLDEN_FILE,
    RESULT_FILE,
    Recorded,
    RunFailed,
    SidePlan,
    Workspace,
    notes_of,
    record,
    side_info,
)


def rules_of(config: Config) -> Rules:
    """The configured exceptions and policy, as of today."""
    return Rules(config.accept, config.policy, datetime.datetime.now(datetime.timezone.utc).date(), config.strict)


TRIGGERED_SHARE = 0.5
"""Share of the applicable rules that must come up in a run; golden runs have all of them, by construction."""

NO_RULES = Rules((), {}, datetime.date.min)


def check_candidate(
    plan: SidePlan,
    space: Workspace,
    golden: Golden,
    *,
    seed: int | None,
    same_spec: bool,
    rules: Rules,
    path: Path,
    golden_side: SideInfo,
    engine: Engine,
    progress: Progress,
    stored: Path | None = None,
    made: Recorded | RunFailed | None = None,
) -> CheckResult:
    """Run the candidate once, unless that was `made` already, and check it. A run that fails is an error in the result.

    A golden that was `stored` gets the numbers for the platform that the candidate turns out to run on. Raises
    `GoldenError` when these cannot be read.
    """
    empty = CheckResult(
        golden.pipeline, golden=golden_side, candidate=SideInfo(plan.commit, path=str(path), command=plan.command)
    )
    run = made or attempt(lambda: record(plan, space, CANDIDATE, seed=seed, engine=engine, progress=progress))
    if isinstance(run, RunFailed):
        return replace(empty, errors=(run.error,), notes=run.notes)
    return check_recorded(
        run, plan, golden, empty, same_spec=same_spec, rules=rules, path=path, engine=engine, stored=stored
    )


def check_recorded(
    run: Recorded,
    plan: SidePlan,
    golden: Golden,
    empty: CheckResult,
    *,
    same_spec: bool,
    rules: Rules,
    path: Path,
    engine: Engine,
    stored: Path | None = None,
) -> CheckResult:
    """Check a run that is there; `empty` says what is known of both sides. Raises as `check_candidate` does."""
    if stored is not None and same_spec:
        golden = store.with_numbers(golden, stored, read_environment(run.run_dir).get("platform", ""))
    started = time.perf_counter()
    outcome = engine.check_run(golden, run.trace, same_spec=same_spec)
    seconds = time.perf_counter() - started
    judged = judge(outcome.verdicts, outcome.incidents, rules)
    errors = () if outcome.incidents else vacuous(outcome.verdicts)
    return replace(
        empty,
        verdicts=judged.verdicts,
        incidents=judged.incidents,
        modules=outcome.modules,
        errors=errors,
        candidate=side_info(plan, [run], path),
        timing=Timing(candidate_run_s=run.seconds, check_s=seconds),
        notes=(*notes_of(plan, [run]), *judged.notes),
        renamed=outcome.renamed,
        coverage=outcome.coverage,
        warnings=(*cautions(golden, outcome.coverage, rules), *outcome.warnings),
        ran=outcome.ran,
    )


def cautions(golden: Golden, coverage: Coverage | None, rules: Rules) -> tuple[Warned, ...]:
    """What must not be overlooked in a check though no rule is broken."""
    # Imported here, since numpy is not needed to say that an option is wrong.
    from pytest_traincheck.check.coverage import warnings_of
    from pytest_traincheck.check.unsaid import unsaid

    titles = (*chance(golden), *unsaid(golden))
    return (*warnings_of(coverage, strict=rules.strict), *(Warned("golden", title) for title in titles))


def vacuous(verdicts: Sequence[InvariantVerdict]) -> tuple[RunError, ...]:
    """An error when so few rules came up that a pass would mean nothing; when it is none at all, with the reasons."""
    idle_verdicts = (Verdict.NOT_TRIGGERED, Verdict.NOT_OBSERVABLE)
    if all(item.verdict in idle_verdicts for item in verdicts):
        return (_nothing_checked(verdicts),)
    applicable = [item for item in verdicts if item.applicable and not _lacks_numbers(item)]
    idle = sum(item.verdict in idle_verdicts for item in applicable)
    if not applicable or idle <= len(applicable) * (1 - TRIGGERED_SHARE):
        return ()
    return (
        RunError(
            CANDIDATE,
            f"only {len(applicable) - idle} of {len(applicable)} rules of the golden came up in the candidate run, "
            "too few for a pass to mean anything",
            "look at what the pipeline does now; if it is another pipeline, learn its golden with `traincheck refresh`",
        ),
    )


def _nothing_checked(verdicts: Sequence[InvariantVerdict]) -> RunError:
    if not verdicts:
        return RunError(
            CANDIDATE,
            "the golden has no rules, so nothing was checked",
            "let the pipeline train for a few more steps and learn its golden with `traincheck refresh`",
        )
    tally = Counter(f"{item.verdict.value}: {item.reason}" for item in verdicts)
    reasons = "; ".join(f"{count} {reason}" for reason, count in tally.most_common(3))
    return RunError(
        CANDIDATE,
        f"none of {plural(len(verdicts), 'rule')} of the golden could be checked ({reasons})",
        "check a run of the golden's own command with its whole trace, or learn a golden of this one with "
        "`traincheck refresh`",
    )


def _lacks_numbers(item: InvariantVerdict) -> bool:
    """On a platform that nobody has learned from yet, numbers are unknown, which says nothing about the run."""
    return item.invariant.kind is Kind.NUMERIC and item.verdict is Verdict.NOT_OBSERVABLE


def keep_artifacts(space: Workspace, result: CheckResult, golden: Golden | None) -> None:
    """Leave the golden and the result beside the runs, when the user keeps them."""
    if not space.kept:
        return
    if golden is not None:
        store.write(space.path / GOLDEN_FILE, golden)
        # The lock is for stores that several writers share.
        (space.path / store.LOCK_NAME).unlink(missing_ok=True)
    write_json(space.path / RESULT_FILE, [result])
