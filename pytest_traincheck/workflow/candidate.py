"""The candidate side: one run, checked against a golden."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from pytest_traincheck.check.result import (
    CheckResult,
    SideInfo,
    Timing,
)
from pytest_traincheck.golden import store
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.launch.metadata import read_environment
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.report.json_report import write_json
from pytest_traincheck.workflow.against import Against
from pytest_traincheck.workflow.check_mode import left_out
from pytest_traincheck.workflow.engine import Engine
from pytest_traincheck.workflow.fail_fast import record_until_incident
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
from pytest_traincheck.workflow.sufficiency import cautions, vacuous


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
    not_needed = left_out(golden, stored, same_spec=same_spec, kept=space.kept)
    run: Recorded | RunFailed | CheckResult
    if made is not None:
        run = made
    elif rules.fail_fast:
        held = Against(golden, stored, same_spec, False, rules, golden_side)
        run = attempt(
            lambda: record_until_incident(
                plan, space, held, seed=seed, path=path, engine=engine, progress=progress, not_needed=not_needed
            )
        )
    else:
        run = attempt(
            lambda: record(plan, space, CANDIDATE, seed=seed, engine=engine, progress=progress, not_needed=not_needed)
        )
    if isinstance(run, CheckResult):
        return run
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
        portraits=outcome.portraits,
        audit=None
        if rules.audit is None or engine.audit is None
        else engine.audit(golden.pipeline, run.trace, rules.audit, plan.cwd),
    )


def keep_artifacts(space: Workspace, result: CheckResult, golden: Golden | None) -> None:
    """Leave the golden and the result beside the runs, when the user keeps them."""
    if not space.kept:
        return
    if golden is not None:
        store.write(space.path / GOLDEN_FILE, golden)
        # The lock is for stores that several writers share.
        (space.path / store.LOCK_NAME).unlink(missing_ok=True)
    write_json(space.path / RESULT_FILE, [result])
