"""The golden side: runs under several seeds and variations, and what they have in common."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_traincheck.config import PipelineSpec
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.launch.metadata import read_environment
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.workflow.engine import Engine
from pytest_traincheck.workflow.record_all import Wanted, record_all
from pytest_traincheck.workflow.runs import Recorded, RunFailed, SidePlan, Workspace, notes_of


@dataclass(frozen=True)
class Learned:
    """A golden, the runs behind it and the seconds that inference took; `repeated` are runs of the first seed again."""

    golden: Golden
    runs: tuple[Recorded, ...]
    seconds: float
    repeated: tuple[Recorded, ...] = ()
    notes: tuple[str, ...] = ()


def learn_side(
    plan: SidePlan,
    space: Workspace,
    spec: PipelineSpec,
    *,
    reason: str = "",
    engine: Engine,
    progress: Progress,
) -> Learned:
    """Run the golden side once per seed and once per variation, and learn. Raises `RunFailed`."""
    runs = record_all(golden_runs(plan, spec, engine), space, engine=engine, progress=progress)
    return learn_from(runs, plan, spec, reason=reason, engine=engine)


def golden_runs(plan: SidePlan, spec: PipelineSpec, engine: Engine) -> list[Wanted]:
    """What a golden is learned from: the seeds, the variations, the first seed again.

    That is run twice, since what is drawn from generators that nobody seeds, or in workers of loaders, nobody sees, so
    that nothing else shows what comes again.
    """
    seeds = [Wanted(plan, f"golden-seed{seed}", seed) for seed in spec.seeds]
    varied = [Wanted(plan, f"golden-vary{number}", spec.seeds[0], extra) for number, extra in enumerate(spec.vary)]
    is_repeated = runs_of(spec, repeats=engine.repeats) > len(seeds) + len(varied)
    return [*seeds, *varied, *([Wanted(plan, "golden-repeated", spec.seeds[0])] if is_repeated else [])]


def runs_of(spec: PipelineSpec, *, repeats: bool = True) -> int:
    """How many runs a golden is learned from."""
    return len(spec.seeds) + len(spec.vary) + (repeats and spec.seeds[0] not in spec.seeds[1:])


def learn_from(
    found: Sequence[Recorded | RunFailed], plan: SidePlan, spec: PipelineSpec, *, reason: str = "", engine: Engine
) -> Learned:
    """Learn from the runs that `golden_runs` asks for."""
    recorded = [run for run in found if isinstance(run, Recorded)]
    count = len(spec.seeds)
    runs, varied, again = recorded[:count], recorded[count : count + len(spec.vary)], recorded[count + len(spec.vary) :]
    started = time.perf_counter()
    golden = engine.learn(
        [run.trace for run in runs],
        pipeline=spec.name,
        spec=spec.fingerprint(),
        commit=plan.commit,
        environment=read_environment(runs[0].run_dir),
        seeds=spec.seeds,
        reason=reason,
        varied=[run.trace for run in varied],
        repeated=[run.trace for run in again],
    )
    seconds = time.perf_counter() - started
    return Learned(golden, (*runs, *varied), seconds, tuple(again), notes_of(plan, recorded))
