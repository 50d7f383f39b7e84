"""Configured pipelines, checked against the stored golden."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from pytest_traincheck.check.result import CheckResult, SideInfo
from pytest_traincheck.config import STORED, Config, PipelineSpec
from pytest_traincheck.golden import store
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.sides import open_side, resolve_side
from pytest_traincheck.relations.stored import read_golden
from pytest_traincheck.workflow.bundle import Recipe, keep_bundle
from pytest_traincheck.workflow.candidate import check_candidate, keep_artifacts
from pytest_traincheck.workflow.changed_lines import since_golden
from pytest_traincheck.workflow.engine import Engine, default_engine
from pytest_traincheck.workflow.last_check import remember
from pytest_traincheck.workflow.next_steps import with_commands
from pytest_traincheck.workflow.plans import plan_of
from pytest_traincheck.workflow.policy import rules_of
from pytest_traincheck.workflow.runs import CANDIDATE, workspace


def check_stored(
    config: Config,
    spec: PipelineSpec,
    progress: Progress,
    *,
    artifacts: Path | None = None,
    engine: Engine | None = None,
) -> CheckResult:
    """The working tree against the stored golden. Raises `GoldenError` when that cannot be read."""
    engine = engine or default_engine()
    golden = read_stored(config, spec)
    path = store.golden_path(config.store, spec.name)
    with ExitStack() as stack:
        space = stack.enter_context(workspace(artifacts, spec.name))
        side = stack.enter_context(open_side(resolve_side(str(config.root), config.root)))
        plan = plan_of(config, spec, side, CANDIDATE)
        result = check_candidate(
            plan,
            space,
            golden,
            seed=spec.seeds[0],
            same_spec=golden.spec == spec.fingerprint(),
            rules=rules_of(config),
            path=config.root,
            golden_side=SideInfo(
                golden.commit,
                golden.runs,
                golden.environment,
                str(path),
                spec.run,
            ),
            engine=engine,
            progress=progress,
            stored=path,
        )
        if golden.spec != spec.fingerprint():
            result = replace(
                result,
                notes=(
                    *result.notes,
                    f"the golden of {spec.name!r} was learned from another command, so only its transferable rules "
                    f"were checked; `traincheck refresh {spec.name}` learns it again",
                ),
            )
        result = with_commands(since_golden(result, golden.commit, path, plan.cwd), config, STORED)
        remember(config, result)
        if space.kept:
            golden = store.with_numbers(golden, path, result.candidate.environment.get("platform", ""))
        recipe = Recipe(spec, golden.spec == spec.fingerprint(), rules_of(config))
        result = keep_bundle(space, result, golden, recipe, engine)
        keep_artifacts(space, result, golden)
    return result


def read_stored(config: Config, spec: PipelineSpec) -> Golden:
    """The stored golden of a pipeline. Raises `GoldenError` that ends with the command which makes one."""
    path = store.golden_path(config.store, spec.name)
    if not path.exists():
        raise GoldenError(
            f"The pipeline {spec.name!r} has no golden: there is no {path}. "
            f"Learn it and commit the file: traincheck refresh {spec.name}"
        )
    return read_golden(path)
