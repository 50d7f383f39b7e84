"""Mutants of one pipeline: each is run with its mistake, as many at a time as fit, and checked against the golden."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.jobs import AUTO, Jobs
from pytest_traincheck.launch import machine
from pytest_traincheck.launch.forecast import in_words
from pytest_traincheck.launch.progress import Progress, QuietProgress
from pytest_traincheck.mutants import tally
from pytest_traincheck.mutants.catalogue import COUNTED
from pytest_traincheck.mutants.kind import Kind
from pytest_traincheck.selftest.identical import trained_alike
from pytest_traincheck.selftest.kinds import files_of
from pytest_traincheck.selftest.result import Fate, Mutant
from pytest_traincheck.text import plural
from pytest_traincheck.workflow.engine import Engine
from pytest_traincheck.workflow.policy import Rules, judge
from pytest_traincheck.workflow.runs import Recorded, RunFailed, SidePlan, Workspace, notes_of, record
from pytest_traincheck.workflow.sufficiency import vacuous

_MOST_JOBS = 8
_PATIENCE, _LEAST_TIMEOUT = 6.0, 60.0
"""A mutant may take so many times as long as the run without a mistake, and at least so many seconds."""

_RAISED = re.compile(r"\b[A-Za-z_.]*(?:Error|Exception)\b(?:: .*)?")
"""The last line of a traceback, with or without the rank in front of it."""


class _Stopped(Exception):
    """The selftest is given up; the runs that are still going end."""


@dataclass(frozen=True)
class Bench:
    """What every mutant of one pipeline is run with and compared to."""

    plan: SidePlan
    space: Workspace
    golden: Golden
    seed: int
    rules: Rules
    unchanged: Recorded
    engine: Engine
    stop: threading.Event = field(default_factory=threading.Event)


def patient(plan: SidePlan, seconds: float) -> SidePlan:
    """The plan with a timeout for mutants, which may hang, where the run without a mistake took so many seconds."""
    return replace(plan, timeout=min(plan.timeout, max(_LEAST_TIMEOUT, _PATIENCE * seconds)))


def _at_a_time(bench: Bench, jobs: Jobs) -> int:
    """How many runs are made at a time: so many, or as many as fit on the machine."""
    if bench.plan.alone:
        return 1
    if jobs != AUTO:
        return int(jobs)
    ranks = max((process.world_size for process in bench.unchanged.trace.processes), default=1)
    return max(1, min(_MOST_JOBS, machine.places() // ranks))


def run_all(
    bench: Bench, kinds: Sequence[Kind], places: Mapping[str, int], jobs: Jobs, progress: Progress
) -> tuple[Mutant, ...]:
    """All mutants, in the order of the kinds; `jobs` at a time, or as many as fit on the machine.

    `places` says how often each kind could be made; those that could not are not run.
    """
    planned = [kind for kind in kinds if places.get(kind.name)]
    fates = {
        kind.name: Mutant(kind, Fate.NOT_APPLICABLE, detail=f"no {kind.needs}")
        for kind in kinds
        if not places.get(kind.name)
    }
    pool = ThreadPoolExecutor(_at_a_time(bench, jobs), thread_name_prefix="traincheck-mutant")
    started = time.monotonic()
    progress.start(_label(bench, 0, len(planned)))
    try:
        waiting: set[Future[Mutant]] = {pool.submit(_run_one, bench, kind, places[kind.name]) for kind in planned}
        while waiting:
            done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
            for mutant in (future.result() for future in done):
                fates[mutant.kind.name] = mutant
            if done:
                made = len(planned) - len(waiting)
                left = (time.monotonic() - started) / made * len(waiting)
                progress.start(_label(bench, made, len(planned), left))
            progress.update(time.monotonic() - started)
    finally:
        # A run that is still going looks at this twice a second.
        bench.stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        progress.finish("")
    return tuple(fates[kind.name] for kind in kinds)


def _label(bench: Bench, done: int, total: int, left: float = 0.0) -> str:
    """ "net: 3 of 12 mistakes planted, about 40 s left"; `left` in seconds."""
    more = f", about {in_words(left)} left" if left else ""
    return f"{bench.golden.pipeline}: {done} of {plural(total, 'mistake')} planted{more}"


class _Watch(QuietProgress):
    """Progress of one of several runs at a time: silent, and the way to end it."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def update(self, seconds: float) -> None:  # noqa: ARG002 - nothing is shown
        """Raises `_Stopped` once the selftest is given up."""
        if self._stop.is_set():
            raise _Stopped


def _run_one(bench: Bench, kind: Kind, places: int) -> Mutant:
    name = f"mutant-{kind.name}"
    started = time.monotonic()
    try:
        return replace(_fate(bench, kind, name, places), seconds=time.monotonic() - started)
    finally:
        if not bench.space.kept:
            # Dozens of traces would fill a small disk.
            shutil.rmtree(bench.space.path / name, ignore_errors=True)


def _fate(bench: Bench, kind: Kind, name: str, places: int) -> Mutant:
    run_dir = bench.space.path / name
    try:
        run = record(
            bench.plan,
            bench.space,
            name,
            seed=bench.seed,
            mutant_files=files_of([kind]),
            mutant=f"{kind.name}{COUNTED}{places}" if kind.by_number else kind.name,
            engine=bench.engine,
            progress=_Watch(bench.stop),
        )
    except RunFailed as failure:
        applied = tally.read(run_dir).get(kind.name, 0)
        return Mutant(kind, Fate.CRASHED, applied, detail=_why(failure))
    applied = tally.read(run_dir).get(kind.name, 0)
    if not applied:
        return Mutant(kind, Fate.NOT_APPLICABLE, detail="its place was not reached in the run with the mistake")
    found = checked(bench, run)
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


def checked(bench: Bench, run: Recorded) -> CheckResult:
    """What the golden says of one run, policy and exceptions applied."""
    outcome = bench.engine.check_run(bench.golden, run.trace, same_spec=True)
    judged = judge(outcome.verdicts, outcome.incidents, bench.rules)
    return CheckResult(
        bench.golden.pipeline,
        verdicts=judged.verdicts,
        incidents=judged.incidents,
        modules=outcome.modules,
        errors=() if outcome.incidents else vacuous(outcome.verdicts),
        notes=(*notes_of(bench.plan, [run]), *judged.notes),
        renamed=outcome.renamed,
    )
