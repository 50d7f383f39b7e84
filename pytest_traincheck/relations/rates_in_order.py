"""The learning rates of an optimizer in the order of its steps.

Where another process goes on with a training, its optimizer takes the place of the first one, and the steps of both are
one course.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_traincheck.relations.counted import steps_not_taken
from pytest_traincheck.relations.hyperparameter import learning_rates, steps_of
from pytest_traincheck.trace import Process
from pytest_traincheck.trace.labels import Ints
from pytest_traincheck.trace.process import OptimizerStep

LIMIT = 32
"""Longest schedule that is written into a golden, in steps."""


def parts_of(process: Process, optimizer: int) -> tuple[int, ...]:
    """The optimizers that take each other's place from process to process, of which one is given, in their order."""

    def compute() -> Mapping[int, tuple[int, ...]]:
        names, found = process.names.optimizers, list(dict.fromkeys(step.optimizer for step in process.steps))
        if not process.raw.joins:
            return {number: (number,) for number in found}
        return {number: tuple(each for each in found if names[each] == names[number]) for number in found}

    return process.memo("optimizers in each other's place", compute)[optimizer]


def steps_taken(process: Process, optimizer: int) -> list[OptimizerStep]:
    """Its steps, and those of the optimizers whose place it takes or that take its place."""
    return [step for part in parts_of(process, optimizer) for step in steps_of(process, part)]


def rates_of(process: Process, optimizer: int) -> Mapping[int, list[float]]:
    """Learning rate of each group at each of these steps."""

    def compute() -> Mapping[int, list[float]]:
        schedules: dict[int, list[float]] = {}
        for step in steps_taken(process, optimizer)[:LIMIT]:
            for group, rate in learning_rates(process, step.optimizer, step.begin).items():
                schedules.setdefault(group, []).append(rate)
        return schedules

    return process.memo(("schedule", optimizer), compute)


def places_of(process: Process, optimizer: int) -> list[int]:
    """For each of these steps how often the schedulers had been stepped since the training began."""

    def compute() -> list[int]:
        events = process.events
        rows = scheduler_rows(process, optimizer)
        backward = process.rows_of_type("autograd")
        begun = rows[rows > (backward[0] if len(backward) else 0)]
        ends = np.sort(events["end"][begun].astype(np.int64))
        begins = [step.begin for step in steps_taken(process, optimizer)]
        places: list[int] = np.searchsorted(ends, begins).tolist()
        return places

    return process.memo(("places in the schedule", optimizer), compute)


def scheduler_rows(process: Process, optimizer: int) -> Ints:
    """Calls that step the schedulers of these optimizers; in a process that goes on, not the one that makes them."""
    rows = process.rows_of_type("scheduler")
    mine = np.isin(process.events["opt"][rows], parts_of(process, optimizer))
    found: Ints = rows[mine & ~process.inside("scheduler")[rows]]
    return found


def skips_before(process: Process, optimizer: int) -> list[int]:
    """For each of these steps how often gradient scalers had been asked for one, of any optimizer, and taken none."""

    def compute() -> list[int]:
        skipped = np.sort(process.events["seq"][steps_not_taken(process)].astype(np.int64))
        begins = [step.begin for step in steps_taken(process, optimizer)[:LIMIT]]
        counts: list[int] = np.searchsorted(skipped, begins).tolist()
        return counts

    return process.memo(("steps skipped before", optimizer), compute)


def follows_a_metric(process: Process, optimizer: int) -> bool:
    """Whether a scheduler of the optimizer is stepped with a metric, as `ReduceLROnPlateau` is: then the rate is up
    to the loss.
    """
    rows = process.rows_of_type("scheduler")
    rows = rows[np.isin(process.events["opt"][rows], parts_of(process, optimizer))]
    arguments = process.raw.symbols["args"]
    return any(
        (arguments[number].get("values") or {}).get("metrics") is not None
        for number in np.unique(process.events["args"][rows]).tolist()
    )
