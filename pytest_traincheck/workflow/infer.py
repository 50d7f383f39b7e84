"""The golden side: runs under several seeds and variations, and what they have in common."""

from __future__ import annotations

import time
from dataclasses import dataclass

from pytest_traincheck.config import PipelineSpec
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.launch.metadata import read_environment
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.workflow.engine import Engine
from pytest_traincheck.workflow.runs import Recorded, SidePlan, Workspace, notes_of, record


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
    """Run the golden side once per seed and once per variation, and learn. Raises `RunFailed`.

    The first seed is run twice: what is drawn from generators that nobody seeds, or in workers of loaders, nobody sees,
    so that nothing else shows what comes again.
    """
    runs = [
        record(plan, space, f"golden-seed{seed}", seed=seed, engine=engine, progress=progress) for seed in spec.seeds
    ]
    varied = [
        record(
            plan, space, f"golden-vary{number}", seed=spec.seeds[0], extra_args=extra, engine=engine, progress=progress
        )
        for number, extra in enumerate(spec.vary)
    ]
    again = (
        [record(plan, space, "golden-repeated", seed=spec.seeds[0], engine=engine, progress=progress)]
        if engine.is_repeated(runs[0].trace) and spec.seeds[0] not in spec.seeds[1:]
        else []
    )
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
    notes = notes_of(plan, [*runs, *varied, *again])
    return Learned(golden, (*runs, *varied), seconds, tuple(again), notes)
