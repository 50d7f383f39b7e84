"""The gate that tests itself: known mistakes planted into a pipeline, one at a time, and whether its golden notices."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from pytest_traincheck.check.result import CheckResult, SideInfo, Timing
from pytest_traincheck.config import Config, ConfigError, PipelineSpec
from pytest_traincheck.golden import store
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.jobs import AUTO, Jobs
from pytest_traincheck.launch.metadata import read_environment
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.sides import open_side, resolve_side, separation
from pytest_traincheck.mutants import tally
from pytest_traincheck.mutants.catalogue import CENSUS
from pytest_traincheck.mutants.kind import Kind
from pytest_traincheck.relations.stored import read_golden
from pytest_traincheck.selftest.kinds import files_of, known_kinds
from pytest_traincheck.selftest.result import SelftestResult
from pytest_traincheck.workflow.engine import Engine, default_engine
from pytest_traincheck.workflow.infer import learn_side
from pytest_traincheck.workflow.overlap import Overlap
from pytest_traincheck.workflow.plans import plan_of
from pytest_traincheck.workflow.policy import rules_of
from pytest_traincheck.workflow.runs import (
    CANDIDATE,
    GOLDEN,
    RunFailed,
    SidePlan,
    Workspace,
    mean_seconds,
    record,
    side_info,
    workspace,
)
from pytest_traincheck.workflow.selftest_mutants import Bench, checked, patient, run_all

UNCHANGED = "unchanged"
"""The run without a mistake, which counts where each could be made."""


@dataclass(frozen=True)
class SelftestRequest:
    """What is asked of a selftest. `kinds` are globs for names of kinds, none for all; `jobs` is for mutants.

    `ref` is the commit whose code is run; None for the working tree.
    """

    kinds: tuple[str, ...] = ()
    floor: float | None = None
    jobs: Jobs = AUTO
    artifacts: Path | None = None
    most: int | None = None
    """How many mistakes are planted at most, of those that have a place; None for all."""
    ref: str | None = None


def chosen_kinds(globs: Sequence[str]) -> tuple[Kind, ...]:
    """The kinds whose name or group fits one of the globs; all without any.

    Raises `ConfigError` for a glob that fits none, and `PluginError` for a plug-in that cannot be used.
    """
    known = known_kinds()
    for glob in globs:
        if not any(_fits(kind, glob) for kind in known):
            raise ConfigError(f"no kind of mistake fits {glob!r}. `traincheck selftest --list` shows all of them.")
    return tuple(kind for kind in known if not globs or any(_fits(kind, glob) for glob in globs))


def _fits(kind: Kind, glob: str) -> bool:
    return fnmatchcase(kind.name, glob) or kind.group == glob


def selftest(
    config: Config,
    spec: PipelineSpec,
    request: SelftestRequest,
    progress: Progress,
    *,
    engine: Engine | None = None,
) -> SelftestResult:
    """Plant every chosen kind of mistake into a pipeline and check each mutant against its golden.

    The golden is the stored one, or learned now from the working tree where there is none for this command. A run
    without a mistake comes first: it must pass. Raises `ConfigError` for kinds that do not exist and `GoldenError` for
    a stored golden that cannot be read.
    """
    engine = engine or default_engine()
    kinds = chosen_kinds(request.kinds)
    started = time.monotonic()
    with ExitStack() as stack:
        space = stack.enter_context(workspace(request.artifacts, spec.name))
        here = stack.enter_context(open_side(resolve_side(str(config.root), config.root)))
        side = here
        if request.ref is not None:
            side = stack.enter_context(open_side(resolve_side(request.ref, config.root), spec.link))
        source_root, forbidden = separation(side, here)
        plan = replace(plan_of(config, spec, side, CANDIDATE), source_root=source_root, forbidden_roots=forbidden)
        try:
            source = _source(config, spec, plan, space, engine, progress)
            run = record(
                plan,
                space,
                UNCHANGED,
                seed=spec.seeds[0],
                mutant=CENSUS,
                mutant_files=files_of(kinds),
                engine=engine,
                progress=progress,
            )
        except RunFailed as failure:
            broken = CheckResult(spec.name, errors=(failure.error,), notes=failure.notes)
            return SelftestResult(broken, floor=request.floor)
        golden = source.golden
        if source.stored is not None:
            golden = store.with_numbers(golden, source.stored, read_environment(run.run_dir).get("platform", ""))
        # Mutants have a pool of their own: one that crashes or hangs is no neighbour's fault.
        engine = replace(engine, overlap=Overlap())
        bench = Bench(patient(plan, run.seconds), space, golden, spec.seeds[0], rules_of(config), run, engine)
        timing = Timing(source.run_s, run.seconds, source.infer_s)
        unchanged = replace(
            checked(bench, run), golden=source.facts, candidate=side_info(plan, [run], config.root), timing=timing
        )
        if unchanged.incidents or unchanged.errors:
            return SelftestResult(unchanged, notes=source.notes, floor=request.floor)
        places = tally.read(run.run_dir)
        if request.most is not None:
            kinds = tuple(kind for kind in kinds if places.get(kind.name))[: request.most]
        mutants = run_all(bench, kinds, places, request.jobs, progress)
    return SelftestResult(unchanged, mutants, time.monotonic() - started, source.notes, request.floor)


@dataclass(frozen=True)
class _Source:
    """The golden, where it came from, and what a reader should know of that. Times are in seconds."""

    golden: Golden
    facts: SideInfo
    stored: Path | None = None
    notes: tuple[str, ...] = ()
    run_s: float = 0.0
    infer_s: float = 0.0


def _source(
    config: Config, spec: PipelineSpec, plan: SidePlan, space: Workspace, engine: Engine, progress: Progress
) -> _Source:
    """The stored golden of this command, or one learned now. Raises `GoldenError` and `RunFailed`."""
    path = store.golden_path(config.store, spec.name)
    note = "it has no stored golden"
    if path.exists():
        golden = read_golden(path)
        if golden.spec == spec.fingerprint():
            facts = SideInfo(golden.commit, golden.runs, golden.environment, str(path), spec.run)
            return _Source(golden, facts, path)
        note = "its stored golden was learned from another command"
    learned = learn_side(
        replace(plan, side=GOLDEN),
        space,
        spec,
        engine=engine,
        progress=progress,
    )
    notes = (f"the golden of {spec.name!r} was learned now, from the working tree, since {note}", *learned.notes)
    facts = side_info(plan, learned.runs, config.root)
    return _Source(learned.golden, facts, None, notes, mean_seconds(learned.runs), learned.seconds)
