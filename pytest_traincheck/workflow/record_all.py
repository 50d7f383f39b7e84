"""Several runs that a result is made of, beside each other where there are jobs for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.run_directory import is_run_directory
from pytest_traincheck.workflow.engine import Engine
from pytest_traincheck.workflow.runs import Recorded, RunFailed, SidePlan, Workspace, record


@dataclass(frozen=True)
class Wanted:
    """One run. `name` is that of its directory; where it `may_fail`, its failure is a result like any other."""

    plan: SidePlan
    name: str
    seed: int | None
    extra_args: str = ""
    may_fail: bool = False


def record_all(
    wanted: Sequence[Wanted], space: Workspace, *, engine: Engine, progress: Progress
) -> list[Recorded | RunFailed]:
    """The runs, in the order in which they are wanted. Raises what `record` raises for the first that goes wrong.

    Then nothing is left of those behind it, as if they had not been begun.
    """
    found: list[Recorded | RunFailed] = []
    tasks = [partial(_one, item, space, engine=engine, progress=progress) for item in wanted]
    try:
        for run in engine.overlap.each(tasks):
            found.append(run)
    except BaseException:
        if engine.overlap.places > 1:
            for item in wanted[len(found) + 1 :]:
                forget(space, item.name)
        raise
    return found


T = TypeVar("T")


def attempt(make: Callable[[], T]) -> T | RunFailed:
    """A run, or what a report says about it where it failed."""
    try:
        return make()
    except RunFailed as failure:
        return failure


def forget(space: Workspace, name: str) -> None:
    """Remove the directory of a run that turned out not to be wanted."""
    if is_run_directory(space.path / name):
        shutil.rmtree(space.path / name, ignore_errors=True)


def _one(item: Wanted, space: Workspace, *, engine: Engine, progress: Progress) -> Recorded | RunFailed:
    make = partial(
        record,
        item.plan,
        space,
        item.name,
        seed=item.seed,
        extra_args=item.extra_args,
        engine=engine,
        progress=progress,
    )
    return attempt(make) if item.may_fail else make()
