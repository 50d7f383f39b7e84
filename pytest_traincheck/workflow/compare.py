"""Golden against candidate, both run now; needs no configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_traincheck.check.result import CheckResult, SideInfo
from pytest_traincheck.config import DEFAULT_SEEDS, DEFAULT_TIMEOUT, PipelineSpec
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.sides import CheckedOutSide, open_side, resolve_side, separation
from pytest_traincheck.workflow.bundle import Recipe, keep_bundle
from pytest_traincheck.workflow.candidate import check_candidate, keep_artifacts
from pytest_traincheck.workflow.changed_lines import between_sides
from pytest_traincheck.workflow.engine import Engine, default_engine
from pytest_traincheck.workflow.infer import golden_runs, learn_from
from pytest_traincheck.workflow.policy import NO_RULES, Rules
from pytest_traincheck.workflow.record_all import Wanted, record_all
from pytest_traincheck.workflow.runs import (
    CANDIDATE,
    GOLDEN,
    RunFailed,
    SidePlan,
    Workspace,
    mean_seconds,
    side_info,
    workspace,
)

_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


@dataclass(frozen=True)
class CompareRequest:
    """Two sides and a command. `golden` and `candidate` are directories or git refs, as seen from `cwd`.

    `candidate_run` and `candidate_seed` default to `run` and the first of `seeds`; `timeout` is seconds per run.
    """

    golden: str
    candidate: str
    run: str
    cwd: Path
    candidate_run: str | None = None
    seed_arg: str | None = None
    seed_env: str | None = None
    seed_by: str | None = None
    steps: int | None = None
    seeds: tuple[int, ...] = DEFAULT_SEEDS
    candidate_seed: int | None = None
    golden_python: str | None = None
    candidate_python: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    timeout: float = DEFAULT_TIMEOUT
    artifacts: Path | None = None
    name: str = ""
    subdirectory: str = "."
    vary: tuple[str, ...] = ()
    rules: Rules = NO_RULES
    link: tuple[str, ...] = ()
    alone: bool = False

    @property
    def pipeline(self) -> str:
        """The name in reports: the one given, or that of the script."""
        return self.name or script_name(self.run)


def script_name(command: str) -> str:
    """The name of what a command line trains with, without directory and suffix: of its script, or of the module behind
    `-m`; `pipeline` when there is neither.
    """
    words = command.split()
    for word, following in zip(words, (*words[1:], ""), strict=True):
        # A launcher is no script: `python -m torch.distributed.run train.py`.
        if word == "-m" and _MODULE.fullmatch(following) and not any(map(_is_script, words)):
            return following.removesuffix(".__main__").rpartition(".")[2]
        if _is_script(word):
            name = re.sub(r"[^A-Za-z0-9_.-]", "_", Path(word.strip("'\"")).stem).lstrip(".-")
            if name:
                return name
    return "pipeline"


def _is_script(word: str) -> bool:
    return word.endswith((".py", ".sh"))


def compare(request: CompareRequest, progress: Progress, engine: Engine | None = None) -> CheckResult:
    """Learn from the golden side, check the candidate. Run failures are errors in the result.

    Raises `SideError` for a side that cannot be used, `ArtifactsError` when they cannot be kept.
    """
    engine = engine or default_engine()
    golden_source = resolve_side(request.golden, request.cwd)
    candidate_source = resolve_side(request.candidate, request.cwd)
    with ExitStack() as stack:
        space = stack.enter_context(workspace(request.artifacts, request.pipeline))
        golden_side = stack.enter_context(open_side(golden_source, request.link))
        candidate_side = stack.enter_context(open_side(candidate_source, request.link))
        golden_plan = _plan(request, GOLDEN, golden_side, candidate_side)
        candidate_plan = _plan(request, CANDIDATE, candidate_side, golden_side)
        result, golden = _run(request, space, (golden_plan, golden_side), (candidate_plan, candidate_side), engine,
                              progress)  # fmt: skip
        result = between_sides(result, golden_side, candidate_side, candidate_plan.cwd)
        result = keep_bundle(space, result, golden, _recipe(request, golden_plan, candidate_plan), engine)
        keep_artifacts(space, result, golden)
    return result


def _recipe(request: CompareRequest, golden: SidePlan, candidate: SidePlan) -> Recipe:
    same = _spec(request, golden).fingerprint() == _spec(request, candidate).fingerprint()
    return Recipe(_spec(request, candidate), same, request.rules)


def _run(
    request: CompareRequest,
    space: Workspace,
    golden: tuple[SidePlan, CheckedOutSide],
    candidate: tuple[SidePlan, CheckedOutSide],
    engine: Engine,
    progress: Progress,
) -> tuple[CheckResult, Golden | None]:
    golden_plan, golden_side = golden
    candidate_plan, candidate_side = candidate
    spec = _spec(request, golden_plan)
    seed = request.seeds[0] if request.candidate_seed is None else request.candidate_seed
    wanted = golden_runs(golden_plan, spec, engine)
    progress.expect(len(wanted) + 1)
    try:
        *runs, run = record_all(
            [*wanted, Wanted(candidate_plan, CANDIDATE, seed, may_fail=True)], space, engine=engine, progress=progress
        )
    except RunFailed as failure:
        sides = (_info(golden_plan, golden_side), _info(candidate_plan, candidate_side))
        error = CheckResult(request.pipeline, errors=(failure.error,), golden=sides[0], candidate=sides[1])
        return replace(error, notes=failure.notes), None
    learned = learn_from(runs, golden_plan, spec, engine=engine)
    result = check_candidate(
        candidate_plan,
        space,
        learned.golden,
        seed=seed,
        same_spec=spec.fingerprint() == _spec(request, candidate_plan).fingerprint(),
        rules=request.rules,
        path=candidate_side.path,
        golden_side=side_info(golden_plan, learned.runs, golden_side.path),
        engine=engine,
        progress=progress,
        made=run,
    )
    timing = replace(result.timing, golden_run_s=mean_seconds(learned.runs), infer_s=learned.seconds)
    return replace(result, timing=timing, notes=(*learned.notes, *result.notes)), learned.golden


def _plan(request: CompareRequest, name: str, side: CheckedOutSide, other: CheckedOutSide) -> SidePlan:
    source_root, forbidden = separation(side, other)
    golden = name == GOLDEN
    return SidePlan(
        side=name,
        command=request.run if golden or request.candidate_run is None else request.candidate_run,
        cwd=side.path / request.subdirectory,
        commit=side.commit,
        python=request.golden_python if golden else request.candidate_python,
        seed_arg=request.seed_arg,
        seed_env=request.seed_env,
        seed_by=request.seed_by,
        steps=request.steps,
        env=request.env,
        timeout=request.timeout,
        source_root=source_root,
        forbidden_roots=forbidden,
        watched=side.watched,
        tree=side.tree,
        alone=request.alone,
    )


def _spec(request: CompareRequest, plan: SidePlan) -> PipelineSpec:
    return PipelineSpec(
        name=request.pipeline,
        run=plan.command,
        cwd=request.subdirectory,
        seed_arg=request.seed_arg,
        seed_env=request.seed_env,
        seed_by=request.seed_by,
        steps=request.steps,
        seeds=request.seeds,
        vary=request.vary,
        env=request.env,
        timeout=request.timeout,
        link=request.link,
    )


def _info(plan: SidePlan, side: CheckedOutSide) -> SideInfo:
    return SideInfo(plan.commit, path=str(side.path), command=plan.command)
