"""Schedule: the learning rate follows the same values from step to step in every run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from pytest_traincheck.golden.model import Invariant, Kind, Scope
from pytest_traincheck.golden.wording import plural
from pytest_traincheck.relations.base import Examples, Finding, Hypothesis
from pytest_traincheck.relations.claims import COUNT, NUMBER_OR_NULL, TEXT, Form, list_of, one_of, optional
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.hyperparameter import class_of, learning_rates, optimizers_called, text_of
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels

LIMIT = 32
"""Longest schedule that is written into a golden, in steps."""
BY_SCHEDULER = "scheduler steps"
"""What rates are told by where a gradient scaler skips steps as the data has it, while the schedule goes on."""


class Schedule:
    """The learning rate takes the same values, step by step; with a gradient scaler, after as many steps of the
    schedulers.

    One that follows the loss differs between seeds and is no rule.
    """

    name = "Schedule"
    forms: ClassVar[tuple[Form, ...]] = (
        {
            "optimizer": TEXT,
            "group": COUNT,
            "values": list_of(NUMBER_OR_NULL, 1),
            "by": optional(one_of(BY_SCHEDULER)),
        },
    )

    def layer(self, claim: Mapping[str, Any]) -> int:
        return 3

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            for optimizer in sorted({step.optimizer for step in process.steps}):
                label = process.names.optimizers[optimizer]
                if _follows_a_metric(process, optimizer):
                    continue
                scaled = bool(len(process.rows_of_type("scaler")))
                for group, rates in _schedules(process, optimizer).items():
                    values = _by_place(rates, _places(process, optimizer)) if scaled else rates
                    if not values:
                        continue
                    claim = {"optimizer": label, "group": group, "values": values}
                    if scaled:
                        claim["by"] = BY_SCHEDULER
                    subject = f"{class_of(process, optimizer)}.lr"
                    yield Hypothesis(self.name, subject, claim, Kind.CONFIG, Scope.PINNED)

    def examples(self, claim: Mapping[str, Any], run: Run) -> Examples:
        return Examples.concatenate([_examples(*place, claim) for place in optimizers_called(run, claim["optimizer"])])

    def sentence(self, claim: Mapping[str, Any], subject: str, when: str) -> str:
        known = _known(claim)
        if len(set(known)) == 1:
            return f"The learning rate of `{claim['optimizer']}` (group {claim['group']}) stays {known[0]:.4g}{when}."
        rates = ", ".join("any" if rate is None else f"{rate:.4g}" for rate in claim["values"][:8])
        more = ", ..." if len(claim["values"]) > 8 else ""
        way = " with the steps of its schedulers" if claim.get("by") else ""
        return f"The learning rate of `{claim['optimizer']}` (group {claim['group']}) goes {rates}{more}{way}{when}."

    def finding(self, invariant: Invariant, run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        first = int(broken[0])
        seen = examples.observed[first] if examples.observed is not None else "?"
        process = run.processes[int(examples.process[first])]
        step = next(step for step in process.steps if step.row == int(examples.row[first]))
        number = step.number
        if claim.get("by"):
            number = _places(process, step.optimizer)[number]
        was = f"{claim['values'][number]:.6g}"
        constant = len(set(_known(claim))) == 1
        what = "The learning rate" if constant else "The learning-rate schedule"
        verbs = ("was", "is") if constant else ("gave", "gives")
        place = f"after {plural(number, 'step')} of its schedulers" if claim.get("by") else f"at its step {number}"
        return Finding(
            f"{what} of `{claim['optimizer']}` {verbs[0]} {was} {place} in golden, {verbs[1]} {seen} in the candidate.",
            f"learning rate {was}",
            f"learning rate {seen}",
        )


def _follows_a_metric(process: Process, optimizer: int) -> bool:
    """Whether a scheduler of the optimizer is stepped with a metric, as `ReduceLROnPlateau` is: then the rate is up
    to the loss.
    """
    rows = process.rows_of_type("scheduler")
    rows = rows[process.events["opt"][rows] == optimizer]
    arguments = process.raw.symbols["args"]
    return any(
        (arguments[number].get("values") or {}).get("metrics") is not None
        for number in np.unique(process.events["args"][rows]).tolist()
    )


def _schedules(process: Process, optimizer: int) -> Mapping[int, list[float]]:
    """Learning rate of each group at each step of the optimizer."""

    def compute() -> Mapping[int, list[float]]:
        schedules: dict[int, list[float]] = {}
        steps = [step for step in process.steps if step.optimizer == optimizer][:LIMIT]
        for step in steps:
            for group, rate in learning_rates(process, optimizer, step.begin).items():
                schedules.setdefault(group, []).append(rate)
        return schedules

    return process.memo(("schedule", optimizer), compute)


def _known(claim: Mapping[str, Any]) -> list[float]:
    return [rate for rate in claim["values"] if rate is not None]


def _places(process: Process, optimizer: int) -> list[int]:
    """For each step of the optimizer how often its schedulers had been stepped since the training began."""

    def compute() -> list[int]:
        events = process.events
        rows = process.rows_of_type("scheduler")
        rows = rows[(events["opt"][rows] == optimizer) & ~process.inside("scheduler")[rows]]
        backward = process.rows_of_type("autograd")
        begun = rows[rows > (backward[0] if len(backward) else 0)]
        ends = np.sort(events["end"][begun].astype(np.int64))
        begins = [step.begin for step in process.steps if step.optimizer == optimizer]
        places: list[int] = np.searchsorted(ends, begins).tolist()
        return places

    return process.memo(("places in the schedule", optimizer), compute)


def _by_place(rates: list[float], places: list[int]) -> list[float | None]:
    """The rate of each place up to the last, `None` where no step was taken; empty if there are two for one place."""
    found: dict[int, float] = {}
    for rate, place in zip(rates, places, strict=False):
        if place < LIMIT and not math.isclose(found.setdefault(place, rate), rate, rel_tol=1e-6, abs_tol=1e-12):
            return []
    return [found.get(place) for place in range(max(found, default=-1) + 1)]


def _examples(process: Process, position: int, optimizer: int, claim: Mapping[str, Any]) -> Examples:
    rates = _schedules(process, optimizer).get(int(claim["group"]), [])
    places = _places(process, optimizer) if claim.get("by") else range(len(rates))
    values = claim["values"]
    steps = [step.row for step in process.steps if step.optimizer == optimizer]
    found = [
        (row, rate, values[place])
        for row, rate, place in zip(steps, rates, places, strict=False)
        if place < len(values) and values[place] is not None
    ]
    size = len(found)
    return Examples(
        np.array([math.isclose(rate, wanted, rel_tol=1e-6, abs_tol=1e-12) for _, rate, wanted in found], dtype=bool),
        np.full(size, position),
        np.array([row for row, _, _ in found], dtype=np.int64),
        np.zeros(size, dtype=np.int64),
        {"rank": rank_label(process, size)},
        Labels.of(np.arange(size), [text_of(rate) for _, rate, _ in found]) if size else None,
    )
