"""The gate that tests itself: known mistakes planted into a pipeline, one at a time, and whether its golden notices."""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from pytest_traincheck.check.result import CheckResult, SideInfo, Timing
from pytest_traincheck.config import Config, ConfigError, PipelineSpec
from pytest_traincheck.golden import store
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.golden.wording import plural
from pytest_traincheck.launch.metadata import read_environment
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.sides import open_side, resolve_side
from pytest_traincheck.mutants import tally
from pytest_traincheck.mutants.catalogue import CENSUS, KINDS, Kind
from pytest_traincheck.selftest.identical import trained_alike
from pytest_traincheck.selftest.result import Fate, Mutant, SelftestResult
from pytest_traincheck.workflow.engine import Engine, default_engine
from pytest_traincheck.workflow.judging import rules_of, vacuous
from pytest_traincheck.workflow.learning import learn_side
from pytest_traincheck.workflow.policy import Rules, judge
from pytest_traincheck.workflow.runs import (
    CANDIDATE,
    GOLDEN,
    Recorded,
    RunFailed,
    SidePlan,
    Workspace,
    mean_seconds,
    record,
    side_info,
    workspace,
)

UNCHANGED = "unchanged"
"""The run without a mistake, which counts where each could be made."""

_MOST_JOBS = 8
_PATIENCE, _LEAST_TIMEOUT = 6.0, 60.0
"""A mutant may take so many times as long as the run without a mistake, and at least so many seconds."""


_RAISED = re.compile(r"\b[A-Za-z_.]*(?:Error|Exception)\b(?:: .*)?")
"""The last line of a traceback, with or without the rank in front of it."""


class _Stopped(Exception):
    """The selftest is given up; the runs that are still going end."""


@dataclass(frozen=True)
class SelftestRequest:
    """What is asked of a selftest. `kinds` are globs for names of kinds, none for all; `jobs` None for what fits."""

    kinds: tuple[str, ...] = ()
    floor: float | None = None
    jobs: int | None = None
    artifacts: Path | None = None


@dataclass(frozen=True)
class _Bench:
    """What every mutant of one pipeline is run with and compared to."""

    plan: SidePlan
    space: Workspace
    golden: Golden
    same_spec: bool
    seed: int
    rules: Rules
    unchanged: Recorded
    engine: Engine
    stop: threading.Event


def chosen_kinds(globs: Sequence[str]) -> tuple[Kind, ...]:
    """The kinds whose name or group fits one of the globs; all without any.

    Raises `ConfigError` for a glob that fits none.
    """
    for glob in globs:
        if not any(_fits(kind, glob) for kind in KINDS):
            raise ConfigError(f"no kind of mistake fits {glob!r}. `traincheck selftest --list` shows all of them.")
    return tuple(kind for kind in KINDS if not globs or any(_fits(kind, glob) for glob in globs))


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
        side = stack.enter_context(open_side(resolve_side(str(config.root), config.root)))
        plan = SidePlan(
            side=CANDIDATE,
            command=spec.run,
            cwd=side.path / spec.cwd,
            commit=side.commit,
            python=config.candidate_python or config.python,
            seed_arg=spec.seed_arg,
            seed_env=spec.seed_env,
            env=spec.env,
            timeout=spec.timeout,
            source_root=side.root,
        )
        try:
            golden, facts, notes, infer_s = _golden(config, spec, plan, space, engine, progress)
            run = record(plan, space, UNCHANGED, seed=spec.seeds[0], mutant=CENSUS, engine=engine, progress=progress)
        except RunFailed as failure:
            broken = CheckResult(spec.name, errors=(failure.error,), notes=failure.notes)
            return SelftestResult(broken, floor=request.floor, asked=request.kinds)
        path = store.golden_path(config.store, spec.name)
        if not golden.numbers and path.exists():
            golden = store.with_numbers(golden, path, read_environment(run.run_dir).get("platform", ""))
        bench = _Bench(
            plan=replace(plan, timeout=min(spec.timeout, max(_LEAST_TIMEOUT, _PATIENCE * run.seconds))),
            space=space,
            golden=golden,
            same_spec=golden.spec == spec.fingerprint(),
            seed=spec.seeds[0],
            rules=rules_of(config),
            unchanged=run,
            engine=engine,
            stop=threading.Event(),
        )
        unchanged = replace(
            _checked(bench, run),
            golden=facts,
            candidate=side_info(plan, [run], config.root),
            timing=Timing(
                golden_run_s=(facts.runs and infer_s[0]) or 0.0, candidate_run_s=run.seconds, infer_s=infer_s[1]
            ),
        )
        if unchanged.incidents or unchanged.errors:
            return SelftestResult(unchanged, notes=notes, floor=request.floor, asked=request.kinds)
        mutants = _run_all(bench, kinds, tally.read(run.run_dir), request.jobs or _jobs(run), progress)
    return SelftestResult(unchanged, mutants, time.monotonic() - started, notes, request.floor, request.kinds)


def _golden(
    config: Config, spec: PipelineSpec, plan: SidePlan, space: Workspace, engine: Engine, progress: Progress
) -> tuple[Golden, SideInfo, tuple[str, ...], tuple[float, float]]:
    """The golden, where it came from, what a reader should know of it, and the seconds of its runs and of inference."""
    path = store.golden_path(config.store, spec.name)
    note = "it has no stored golden"
    if path.exists():
        golden = store.read(path)
        if golden.spec == spec.fingerprint():
            return golden, SideInfo(golden.commit, golden.runs, golden.environment, str(path), spec.run), (), (0.0, 0.0)
        note = "its stored golden was learned from another command"
    learned = learn_side(
        replace(plan, side=GOLDEN),
        space,
        pipeline=spec.name,
        spec=spec.fingerprint(),
        seeds=spec.seeds,
        vary=spec.vary,
        engine=engine,
        progress=progress,
    )
    facts = side_info(plan, learned.runs, config.root)
    notes = (f"the golden of {spec.name!r} was learned now, from the working tree, since {note}", *learned.notes)
    return learned.golden, facts, notes, (mean_seconds(learned.runs), learned.seconds)


def _jobs(run: Recorded) -> int:
    """How many runs fit on the machine at a time."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    ranks = max((process.world_size for process in run.trace.processes), default=1)
    return max(1, min(_MOST_JOBS, cpus // ranks))


def _run_all(
    bench: _Bench, kinds: Sequence[Kind], places: Mapping[str, int], jobs: int, progress: Progress
) -> tuple[Mutant, ...]:
    """All mutants, in the order of the kinds; as many at a time as there are jobs."""
    planned = [kind for kind in kinds if places.get(kind.name)]
    fates = {
        kind.name: Mutant(kind, Fate.NOT_APPLICABLE, detail=f"no {kind.needs}")
        for kind in kinds
        if not places.get(kind.name)
    }
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="traincheck-mutant")
    started = time.monotonic()
    progress.start(_label(bench, 0, len(planned)))
    try:
        waiting: set[Future[Mutant]] = {pool.submit(_run_one, bench, kind) for kind in planned}
        while waiting:
            done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
            for mutant in (future.result() for future in done):
                fates[mutant.kind.name] = mutant
            if done:
                progress.start(_label(bench, len(planned) - len(waiting), len(planned)))
            progress.update(time.monotonic() - started)
    finally:
        # A run that is still going looks at this twice a second.
        bench.stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        progress.finish("")
    return tuple(fates[kind.name] for kind in kinds)


def _label(bench: _Bench, done: int, total: int) -> str:
    return f"{bench.golden.pipeline}: {done} of {plural(total, 'mistake')} planted"


class _Watch:
    """Progress of one of several runs at a time: silent, and the way to end it."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def start(self, label: str) -> None:
        """Nothing is shown."""

    def update(self, _seconds: float) -> None:
        """Raises `_Stopped` once the selftest is given up."""
        if self._stop.is_set():
            raise _Stopped

    def finish(self, text: str) -> None:
        """Nothing is shown."""


def _run_one(bench: _Bench, kind: Kind) -> Mutant:
    name = f"mutant-{kind.name}"
    started = time.monotonic()
    try:
        return replace(_fate(bench, kind, name), seconds=time.monotonic() - started)
    finally:
        if not bench.space.kept:
            # Dozens of traces would fill a small disk.
            shutil.rmtree(bench.space.path / name, ignore_errors=True)


def _fate(bench: _Bench, kind: Kind, name: str) -> Mutant:
    run_dir = bench.space.path / name
    try:
        run = record(
            bench.plan,
            bench.space,
            name,
            seed=bench.seed,
            mutant=kind.name,
            engine=bench.engine,
            progress=_Watch(bench.stop),
        )
    except RunFailed as failure:
        applied = tally.read(run_dir).get(kind.name, 0)
        return Mutant(kind, Fate.CRASHED, applied, detail=_why(failure))
    applied = tally.read(run_dir).get(kind.name, 0)
    if not applied:
        return Mutant(kind, Fate.NOT_APPLICABLE, detail="its place was not reached in the run with the mistake")
    found = _checked(bench, run)
    if found.incidents:
        return Mutant(kind, Fate.KILLED, applied, found.incidents[0], len(found.incidents))
    if found.errors:
        return Mutant(kind, Fate.KILLED, applied, detail=found.errors[0].message)
    alike = trained_alike(bench.unchanged.trace, run.trace)
    return Mutant(kind, Fate.EQUIVALENT if alike else Fate.SURVIVED, applied)


def _why(failure: RunFailed) -> str:
    """What the launcher says, and the last error that the run itself wrote, whichever rank wrote it."""
    raised = _RAISED.findall(failure.error.output)
    return failure.error.message + (f": {raised[-1]}" if raised else "")


def _checked(bench: _Bench, run: Recorded) -> CheckResult:
    outcome = bench.engine.check_run(bench.golden, run.trace, same_spec=bench.same_spec)
    judged = judge(outcome.verdicts, outcome.incidents, bench.rules)
    return CheckResult(
        bench.golden.pipeline,
        verdicts=judged.verdicts,
        incidents=judged.incidents,
        modules=outcome.modules,
        errors=() if outcome.incidents else vacuous(outcome.verdicts),
        notes=(*run.notes, *judged.notes),
        renamed=outcome.renamed,
    )
