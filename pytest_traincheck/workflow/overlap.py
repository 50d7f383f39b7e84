"""Runs beside each other, with the results of runs one after another.

What counts is what one job would have given. A run that shared the machine and did not end well, or after which a tree
was not what it was while another run might have written there, is made again by itself: the port that was taken, the
memory that was too little and the file that two runs wrote are matters of the neighbour, not of the code that is
checked. Nothing about a run is changed so that it fits, least of all the number of its threads, on which sums depend.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_traincheck.jobs import AUTO, Jobs
from pytest_traincheck.launch import machine
from pytest_traincheck.launch.footprint import Footprint
from pytest_traincheck.launch.turns import Turn, Turns

if TYPE_CHECKING:
    from pytest_traincheck.launch.run import RunOutcome, RunRequest

T = TypeVar("T")


class Stopped(Exception):
    """What one thread was working on is not wanted any more; never seen outside of it."""


class Stop:
    """Tells a task, and all that it has begun, to give up."""

    def __init__(self, parent: Stop | None = None) -> None:
        self._parent = parent
        self._asked = threading.Event()

    def ask(self) -> None:
        self._asked.set()

    def look(self) -> None:
        """Raise `Stopped` where somebody has asked."""
        stop: Stop | None = self
        while stop is not None:
            if stop._asked.is_set():
                raise Stopped
            stop = stop._parent


_STOP: ContextVar[Stop | None] = ContextVar("traincheck_stop", default=None)


def look() -> None:
    """Raise `Stopped` where the task of this thread is not wanted any more."""
    stop = _STOP.get()
    if stop is not None:
        stop.look()


class Begun(Generic[T]):
    """Tasks that are under way, or wait for a thread; their results come in order."""

    def __init__(self, tasks: Sequence[Callable[[], T]], threads: int) -> None:
        outer = _STOP.get()
        self._stops = [Stop(outer) for _ in tasks]
        self._pool = ThreadPoolExecutor(max(1, threads), thread_name_prefix="traincheck")
        self._futures: list[Future[T]] = [
            self._pool.submit(copy_context().run, self._do, number, task) for number, task in enumerate(tasks)
        ]

    def _do(self, number: int, task: Callable[[], T]) -> T:
        _STOP.set(self._stops[number])
        try:
            look()
            return task()
        except BaseException:
            # One after another, those behind it would not have begun.
            for stop in self._stops[number + 1 :]:
                stop.ask()
            raise

    def result(self, number: int, waiting: Callable[[], None] = lambda: None) -> T:
        """What became of a task; `waiting` is called now and then until it is there. Raises what the task raised."""
        future = self._futures[number]
        while not wait([future], timeout=0.5).done:
            look()
            waiting()
        return future.result()

    def end(self) -> None:
        """Give up what is still under way, and wait until nothing of it is left. May be called again."""
        for stop in self._stops:
            stop.ask()
        self._pool.shutdown(wait=True, cancel_futures=True)


@dataclass(frozen=True)
class Overlap:
    """How many runs there are at a time. `weighs`: a run takes as many places as it has ranks."""

    turns: Turns = field(default_factory=lambda: Turns(1))
    weighs: bool = False
    by_itself: set[tuple[str, str]] = field(default_factory=set)
    """Commands, and where they run, that were found not to go well with others."""

    @staticmethod
    def of(jobs: Jobs) -> Overlap:
        """That of a number of jobs, or of what fits on this machine."""
        return Overlap(Turns(machine.places()), weighs=True) if jobs == AUTO else Overlap(Turns(int(jobs)))

    @property
    def places(self) -> int:
        return self.turns.places

    def each(self, tasks: Sequence[Callable[[], T]]) -> Generator[T, None, None]:
        """The results of tasks, in their order, each as soon as it and those before it are there.

        Where one raises, so does this in its place; then those behind it are given up, and have ended. The same goes
        for whatever interrupts the waiting. Close it, where it is not used up.
        """
        if self.places == 1 or len(tasks) < 2:
            for task in tasks:
                yield task()
            return
        begun = Begun(tasks, len(tasks))
        try:
            for number in range(len(tasks)):
                yield begun.result(number)
        finally:
            begun.end()

    def run(
        self,
        execute: Callable[[RunRequest, Callable[[float], None]], RunOutcome],
        request: RunRequest,
        progress: Callable[[float], None],
        *,
        alone: bool = False,
    ) -> RunOutcome:
        """Execute one run when it is its turn; see the head of this file for what is made again."""

        def going(seconds: float) -> None:
            look()
            progress(seconds)

        if self.places == 1:
            return execute(request, going)
        what = (request.command, str(request.cwd))
        places = machine.ranks_of(request.command) if self.weighs else 1
        with self.turns.turn(places, alone=alone or what in self.by_itself, trees=request.watched, look=look) as turn:
            first = execute(request, going)
        if not _was_disturbed(turn, first):
            return first
        with self.turns.turn(places, alone=True, trees=request.watched, look=look):
            second = _with_created(execute(request, going), first)
        note = _why_again(request, first, second)
        if note:
            self.by_itself.add(what)
        return replace(second, notes=(*second.notes, note)) if note else second


def _was_disturbed(turn: Turn, outcome: RunOutcome) -> bool:
    """Whether what became of a run may be the doing of one that was beside it."""
    return (turn.was_shared and bool(outcome.message)) or (turn.shared_a_tree() and bool(outcome.written))


def _why_again(request: RunRequest, first: RunOutcome, second: RunOutcome) -> str:
    """What a user can do so that a run need not be made twice; empty where there is nothing to be done."""
    if first.message and not second.message:
        return (
            f"the {request.side} run was made again by itself, where it ended well; beside another run "
            f"{first.message}. `alone = true` in its configuration spares the first attempt"
        )
    if second.written and not first.message:
        return (
            f"the {request.side} run was made again by itself, since it writes to a tree in which another run was "
            "under way; `{tmp}` in `run`, or `alone = true` in its configuration, spares the first attempt"
        )
    return ""


def _with_created(second: RunOutcome, first: RunOutcome) -> RunOutcome:
    """The second run; a file that the first one created is there already, and was created all the same."""
    created = {(one.root, path) for one in first.written for path in one.created}
    written = tuple(
        _as_new(one, frozenset(path for root, path in created if root == one.root)) for one in second.written
    )
    return replace(second, written=written)


def _as_new(footprint: Footprint, created: frozenset[str]) -> Footprint:
    new = tuple(sorted({*footprint.created, *(created & set(footprint.changed))}))
    return replace(footprint, created=new, changed=tuple(path for path in footprint.changed if path not in created))
