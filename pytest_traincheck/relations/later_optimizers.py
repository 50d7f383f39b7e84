"""Optimizers that take over in steps which golden's runs never came to, as LBFGS does after some steps of Adam.

What such a step calls, and how often, is no news: golden's rules are about the steps of other optimizers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_traincheck.optimizer_label import BY_HAND
from pytest_traincheck.trace import Process
from pytest_traincheck.trace.labels import Ints


@dataclass(frozen=True)
class Later:
    """What takes over: optimizers by number, and the windows in which they alone take steps."""

    optimizers: frozenset[int] = frozenset()
    windows: tuple[int, ...] = ()


@dataclass(frozen=True)
class TakenOver:
    """From which step on optimizers of another class take the steps, and what these are called."""

    step: int
    optimizers: tuple[str, ...]


def taken_over(process: Process) -> TakenOver | None:
    """Where that begins in a process; None where it does not."""
    found = later(process)
    if not found.windows:
        return None
    names = sorted({process.names.optimizers[number] for number in found.optimizers})
    return TakenOver(int(process.numbers[found.windows[0]]), tuple(names))


def later(process: Process) -> Later:
    """The optimizers of another class than those that took the first steps, which take theirs where none of these does.

    One that is made in their place when a training is gone on with is none: the program made it from the beginning on,
    or another process has no step of those of the beginning.
    """
    return process.memo("later optimizers", lambda: _found(process))


def _found(process: Process) -> Later:
    stretch, classes = process.raw.stretch, process.optimizer_class
    if stretch is None:
        return Later()
    first = {classes[step.optimizer] for step in process.steps if step.end <= stretch.head_end}
    old = [step for step in process.steps if classes[step.optimizer] in first]
    new = [step for step in process.steps if classes[step.optimizer] not in first | {BY_HAND}]
    if not old or not new:
        return Later()
    made = process.rows_of_type("construct")
    made = made[process.events["seq"][made] <= stretch.head_end]
    known = {classes[int(number)] for number in process.events["opt"][made].tolist()}
    begun: dict[int, int] = {}
    for step in old:
        begun.setdefault(int(process.era(step.begin)), step.end)
    turns = set(_windows(process, [step.row for step in old]))
    optimizers, windows = set[int](), set[int]()
    for number in {step.optimizer for step in new}:
        mine = [step for step in new if step.optimizer == number]
        follows = begun.get(int(process.era(mine[0].begin)), mine[0].begin) < mine[0].begin
        own = _windows(process, [step.row for step in mine])
        if (follows or classes[number] in known) and not turns & set(own):
            optimizers.add(number)
            windows |= set(own)
    return Later(frozenset(optimizers), tuple(sorted(windows)))


def _windows(process: Process, rows: list[int]) -> list[int]:
    found: Ints = np.unique(process.window[np.array(rows, dtype=np.int64)])
    return [int(number) for number in found.tolist()]
