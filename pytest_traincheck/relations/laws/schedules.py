"""Learning-rate schedulers: they step after the optimizer, once between two steps of it at most, and at all.

A scheduler that steps first takes the first rate away; one that steps twice is over in half of the time; one that is
made and never stepped leaves the rate where the warm-up begins, which is often 0.
"""

from __future__ import annotations

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, in_step, table, times_broken
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Deviation, Place
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Ints
from pytest_traincheck.trace.limit import cut_at_limit, left_at_limit

_ADJUST = "https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
_LEAST = 3
"""Steps of an optimizer, or passes over the data, after which a scheduler is missed: the first ones may warm up."""


class SchedulerFirst(Law):
    """A scheduler steps before its optimizer has."""

    name = "SchedulerFirst"
    subject = "torch.optim.lr_scheduler.LRScheduler.step"
    says = "The optimizer steps before its learning-rate scheduler first does"
    expected = "the scheduler steps after the optimizer"
    because = Reason(
        "scheduler-before-optimizer",
        "A scheduler that steps first changes the learning rate before its first value was used, and every later one "
        "comes one step too early.",
        _ADJUST,
        "Call `scheduler.step()` after `optimizer.step()`.",
    )
    right = "optimizer.step()\nscheduler.step()"
    wrong = "scheduler.step()\noptimizer.step()"
    place = Place.SCHEDULING
    deviation = Deviation.MISPLACED

    def places(self, run: Run) -> Examples:
        return each_process(run, _first_calls)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.api[row]}` is called before the first step of its optimizer: the first learning rate "
                    "is never used.", "the scheduler steps first")  # fmt: skip


class SchedulerTwice(Law):
    """A scheduler steps twice without a step of its optimizer in between."""

    name = "SchedulerTwice"
    subject = "torch.optim.lr_scheduler.LRScheduler.step"
    says = "Between two steps of a learning-rate scheduler its optimizer steps"
    expected = "one step of the scheduler for one or more of the optimizer"
    because = Reason(
        "scheduler-steps-twice",
        "A scheduler that steps twice while its optimizer stands still skips a learning rate: the schedule runs ahead "
        "of the training.",
        _ADJUST,
        "Call `scheduler.step()` in one place. Frameworks that step schedulers themselves do not want a call of yours.",
    )
    right = "optimizer.step()\nscheduler.step()"
    wrong = "for part in parts:\n    loss(part).backward()\n    scheduler.step()\noptimizer.step()"
    place = Place.SCHEDULING
    deviation = Deviation.TOO_OFTEN

    def places(self, run: Run) -> Examples:
        return each_process(run, _following_calls)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(
            f"`{process.api[row]}` is called {times_broken(examples)} (first {in_step(run, examples, broken)}) "
            "although its optimizer has not stepped since the call before.",
            "the scheduler steps again without a step of the optimizer",
        )


class SchedulerIdle(Law):
    """A scheduler was made for an optimizer, and never steps."""

    name = "SchedulerIdle"
    subject = "torch.optim.lr_scheduler.LRScheduler.step"
    says = "A learning-rate scheduler that was made for an optimizer is stepped"
    expected = "the scheduler of an optimizer is stepped"
    because = Reason(
        "scheduler-never-steps",
        "Without calls of `scheduler.step()` the learning rate keeps the value that the scheduler began with, which is "
        "close to 0 where it begins with a warm-up.",
        _ADJUST,
        "Call `scheduler.step()` after `optimizer.step()`, or once an epoch where the schedule counts epochs.",
        "Schedules that begin after a warm-up of many epochs.",
    )
    right = "scheduler = StepLR(optimizer, 10)\nfor batch in loader:\n    optimizer.step()\n    scheduler.step()"
    wrong = "scheduler = StepLR(optimizer, 10)\nfor batch in loader:\n    optimizer.step()"
    place = Place.SCHEDULING
    deviation = Deviation.NEVER

    def places(self, run: Run) -> Examples:
        return each_process(run, _made)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        name = process.names.optimizers[int(process.events["opt"][row])]
        return Told(f"A learning-rate scheduler was made for `{name}`, and it is never stepped.",
                    "the scheduler is never stepped")  # fmt: skip


def _calls(process: Process) -> Ints:
    """Calls of schedulers whose optimizer is known, in order."""
    rows = process.rows_of_type("scheduler")
    return rows[process.events["opt"][rows] > 0]


def _times(process: Process) -> dict[int, Ints]:
    """The times at which the steps of each optimizer began; under 0 those of all of them."""
    found: dict[int, list[int]] = {0: []}
    for step in process.steps:
        for number in (0, step.optimizer):
            found.setdefault(number, []).append(step.begin)
    return {number: np.array(times, dtype=np.int64) for number, times in found.items()}


def _steps_of(process: Process, times: dict[int, Ints], number: int) -> Ints:
    """The times of the steps that a scheduler of an optimizer goes along with: those of any, where that is a wrapper
    that steps another one. One that a gradient scaler has asked for counts, whether or not it was skipped.
    """
    return np.concatenate([times.get(number, times[0]), _asked(process)])


def _asked(process: Process) -> Ints:
    """The times at which a gradient scaler was asked for a step."""
    rows = process.rows_of_type("scaler")
    rows = rows[[process.api[row].endswith(".step") for row in rows.tolist()]] if len(rows) else rows
    return np.asarray(process.events["seq"][rows].astype(np.int64))


def _first_calls(process: Process, position: int) -> Examples:
    """One example for each scheduler's class and optimizer: its first call after which the optimizer steps."""
    times = _times(process)
    first: dict[tuple[str, int], int] = {}
    for row in _calls(process).tolist():
        first.setdefault((process.api[row], int(process.events["opt"][row])), row)
    if not first or not process.steps:
        return EMPTY
    pairs = [(row, _steps_of(process, times, number)) for (_, number), row in first.items()]
    holds = [bool((steps < int(process.events["seq"][row])).any()) for row, steps in pairs]
    return table(process, position, holds, [row for row, _ in pairs])


def _following_calls(process: Process, position: int) -> Examples:
    """One example for each call of a scheduler but its first: whether its optimizer has stepped since the one before,
    or nothing has happened since. Calls that follow one another directly are chained schedulers, or one call of a
    framework that counts for all ranks.
    """
    times = _times(process)
    work = np.sort(np.concatenate([process.entry_rows, process.rows_of_type("autograd", "data")]))
    happened = process.events["seq"][work].astype(np.int64)
    last: dict[tuple[str, int], int] = {}
    rows, holds = [], []
    for row in _calls(process).tolist():
        begin, number = int(process.events["seq"][row]), int(process.events["opt"][row])
        before = last.get((process.api[row], number))
        if before is not None and ((happened > before) & (happened < begin)).any():
            steps = _steps_of(process, times, number)
            rows.append(row)
            holds.append(bool(((steps > before) & (steps < begin)).any()))
        last[process.api[row], number] = begin
    return table(process, position, holds, rows) if rows else EMPTY


def _made(process: Process, position: int) -> Examples:
    """One example for each optimizer that a scheduler was made for, where one would have been stepped by now: it was,
    or the optimizer has gone on after some passes over the data, or there are no passes. What a training that was left
    at its limit would have done later is not known.
    """
    left = left_at_limit(process.raw.meta) or cut_at_limit(process.raw.meta)
    marks = process.measures("scheduler.made")
    made = set(process.events["opt"][marks].tolist())
    stepped = set(process.events["opt"][process.rows_of_type("scheduler")].tolist())
    loads = process.rows_of_type("data")
    ended = process.events["seq"][loads[(process.events["flags"][loads] & fmt.RAISED) != 0]].astype(np.int64)
    rows, holds = [], []
    for number, times in _times(process).items():
        if not number or number not in made | stepped:
            continue
        passes = int((ended < times.max()).sum())
        over = not left and (not len(loads) or passes >= _LEAST)
        if number in stepped or (over and len(times) >= _LEAST):
            rows.append(next(step.row for step in process.steps if step.optimizer == number))
            holds.append(number in stepped)
    return table(process, position, holds, rows) if rows else EMPTY
