"""The working tree against a golden that is not stored but learned: of a commit, or of another directory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from pytest_traincheck.check.result import CheckResult, SideInfo
from pytest_traincheck.config import Config, PipelineSpec
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.sides import open_side, resolve_side
from pytest_traincheck.workflow.bundle import Recipe, keep_bundle
from pytest_traincheck.workflow.candidate import keep_artifacts
from pytest_traincheck.workflow.changed_lines import since_golden
from pytest_traincheck.workflow.check_learned import Obtained, check_against
from pytest_traincheck.workflow.compare import CompareRequest, compare
from pytest_traincheck.workflow.engine import Engine, default_engine
from pytest_traincheck.workflow.last_check import remember
from pytest_traincheck.workflow.live_golden import LiveGolden, obtain
from pytest_traincheck.workflow.next_steps import with_commands
from pytest_traincheck.workflow.plans import plan_of
from pytest_traincheck.workflow.policy import rules_of
from pytest_traincheck.workflow.record_all import attempt, forget
from pytest_traincheck.workflow.runs import (
    CANDIDATE,
    Recorded,
    RunFailed,
    SidePlan,
    Workspace,
    record,
    workspace,
)


def check_live(
    config: Config,
    spec: PipelineSpec,
    ref: str,
    progress: Progress,
    *,
    use_cache: bool = True,
    artifacts: Path | None = None,
    engine: Engine | None = None,
) -> CheckResult:
    """The working tree against the golden of `ref`, which is learned now unless the cache has it.

    Without `use_cache` it is learned in any case. Raises `SideError` when `ref` cannot be used.
    """
    engine = engine or default_engine()
    source = resolve_side(ref, config.root)
    if not source.is_ref:
        # A directory as it lies there: nothing tells whether it is what it was.
        compared = compare(_request(config, spec, ref, artifacts), progress, engine)
        compared = with_commands(compared, config, ref)
        remember(config, compared)
        return compared
    with ExitStack() as stack:
        space = stack.enter_context(workspace(artifacts, spec.name))
        side = stack.enter_context(open_side(resolve_side(str(config.root), config.root)))
        plan = plan_of(config, spec, side, CANDIDATE)
        wanted = LiveGolden(config, spec, source, use_cache)
        try:
            obtained, made = _both(wanted, plan, space, engine, progress)
        except RunFailed as failure:
            sides = (SideInfo(source.commit, command=spec.run), SideInfo(plan.commit, command=spec.run))
            error = CheckResult(spec.name, errors=(failure.error,), golden=sides[0], candidate=sides[1])
            return replace(error, notes=failure.notes)
        result = check_against(
            obtained, plan, space, config=config, spec=spec, path=config.root, engine=engine, progress=progress,
            made=made,
        )  # fmt: skip
        result = replace(result, notes=(*obtained.notes, *result.notes))
        result = since_golden(result, source.commit, config.root, plan.cwd)
        result = with_commands(result, config, source.commit[:12])
        remember(config, result)
        result = keep_bundle(space, result, obtained.golden, Recipe(spec, True, rules_of(config)), engine)
        keep_artifacts(space, result, obtained.golden)
    return result


def _both(
    wanted: LiveGolden, plan: SidePlan, space: Workspace, engine: Engine, progress: Progress
) -> tuple[Obtained, Recorded | RunFailed]:
    """The golden and the candidate's run. Raises what `obtain` raises; then nothing is left of the other."""
    run = partial(record, plan, space, CANDIDATE, seed=wanted.spec.seeds[0], engine=engine, progress=progress)
    tasks: list[Callable[[], Obtained | Recorded | RunFailed]] = [
        partial(obtain, wanted, progress, space=space, engine=engine),
        partial(attempt, run),
    ]
    try:
        obtained, made = engine.overlap.each(tasks)
    except BaseException:
        if engine.overlap.places > 1:
            forget(space, CANDIDATE)
        raise
    assert isinstance(obtained, Obtained)
    assert not isinstance(made, Obtained)
    return obtained, made


def _request(config: Config, spec: PipelineSpec, directory: str, artifacts: Path | None) -> CompareRequest:
    return CompareRequest(
        golden=directory,
        candidate=str(config.root),
        run=spec.run,
        cwd=config.root,
        seed_arg=spec.seed_arg,
        seed_env=spec.seed_env,
        seed_by=spec.seed_by,
        steps=spec.steps,
        seeds=spec.seeds,
        golden_python=config.golden_python or config.python,
        candidate_python=config.candidate_python or config.python,
        env=spec.env,
        timeout=spec.timeout,
        artifacts=artifacts,
        name=spec.name,
        subdirectory=spec.cwd,
        vary=spec.vary,
        rules=rules_of(config),
        link=spec.link,
        alone=spec.alone,
    )
