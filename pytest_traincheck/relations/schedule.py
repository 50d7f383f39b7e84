"""Schedule: the learning rate takes the same course in every run, relative to its base.

The base (`lr` as the optimizer was made with it, or `max_lr` of a scheduler that has one) and the course relative to
it are decided in two places of a program, so they are two claims: a smaller rate breaks the one, a longer warm-up the
other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.claims import COUNT, NUMBER, NUMBER_OR_NULL, TEXT, Form, list_of, one_of, optional
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.covered import construction_row
from pytest_traincheck.relations.hyperparameter import (
    base_rates,
    class_of,
    learning_rates,
    optimizers_called,
    steps_of,
)
from pytest_traincheck.relations.meaning import Meaning, Place, Words
from pytest_traincheck.relations.settings import Setting, Sort, course_text, text_of
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.text import plural
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels

LIMIT = 32
"""Longest schedule that is written into a golden, in steps."""
SHOWN = 8
"""Steps that a sentence shows."""
BY_SCHEDULER = "scheduler steps"
"""What rates are counted by where a gradient scaler skips steps as the data has it, while the schedule goes on."""
DIGITS = 12
"""Significant digits of a factor; a quotient of two rates is exact to about fifteen."""


class Schedule:
    """The learning rate of a group takes the same values relative to its base, step by step; with a gradient scaler,
    after as many steps of the schedulers. Where groups have bases of their own, each is claimed too.

    A schedule that follows the loss differs between seeds and is no rule. Without a known base, rates are claimed as
    they are.
    """

    name = "Schedule"
    forms: ClassVar[tuple[Form, ...]] = (
        {"optimizer": TEXT, "group": COUNT, "base": TEXT, "value": NUMBER},
        {
            "optimizer": TEXT,
            "group": COUNT,
            "base": TEXT,
            "factors": list_of(NUMBER_OR_NULL, 1),
            "by": optional(one_of(BY_SCHEDULER)),
        },
        # Where the base of a rate is not known, and as goldens of earlier versions have it.
        {
            "optimizer": TEXT,
            "group": COUNT,
            "values": list_of(NUMBER_OR_NULL, 1),
            "by": optional(one_of(BY_SCHEDULER)),
        },
    )

    def layer(self, claim: Mapping[str, Any]) -> int:
        return 1 if is_base(claim) else 3

    def meaning(self, rule: Invariant) -> Meaning:
        # What a schedule is relative to is a choice of its own, and does not change its course.
        place = Place.CHOICE if is_base(rule.claim) else Place.COURSE if is_relative(rule.claim) else Place.RATE
        return Meaning(
            place,
            words=Words(words=("lr", "learning_rate", "scheduler", "gamma", "step_size")),
            setting=_setting(rule.claim),
        )

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            for optimizer in sorted({step.optimizer for step in process.steps}):
                subject = f"{class_of(process, optimizer)}.lr"
                for claim in _claims(process, optimizer):
                    yield Hypothesis(self.name, subject, claim, Kind.CONFIG, Scope.PINNED)

    def examples(self, claim: Mapping[str, Any], run: Run) -> Examples:
        make = _base_examples if is_base(claim) else _examples
        return Examples.concatenate([make(*place, claim) for place in optimizers_called(run, claim["optimizer"])])

    def sentence(self, claim: Mapping[str, Any], subject: str, when: str) -> str:
        if is_base(claim):
            return f"`{subject[: -len('.lr')]}({claim['base']})` of {_whom(claim)} is {text_of(claim['value'])}{when}."
        what = f"The learning rate of {_whom(claim)}"
        known = [value for value in _course(claim) if value is not None]
        if len(set(known)) == 1:
            return f"{what} stays {_constant(claim, known[0])}{when}."
        way = " with the steps of its schedulers" if claim.get("by") else ""
        return f"{what} takes the values {_listed(_course(claim))}{_unit(claim)}{way}{when}."

    def finding(self, invariant: Invariant, run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        first = int(broken[0])
        seen = examples.observed[first] if examples.observed is not None else "?"
        if is_base(claim):
            was = text_of(claim["value"])
            return Finding(
                f"`{claim['base']}` of {_whom(claim)} was {was} in the golden run and is {seen} in the candidate.",
                f"{claim['base']} = {was}",
                f"{claim['base']} = {seen}",
                value=seen,
            )
        process = run.processes[int(examples.process[first])]
        step = next(step for step in process.steps if step.row == int(examples.row[first]))
        number = step.number
        if claim.get("by"):
            number = _places(process, step.optimizer)[number]
        course = _course(claim)
        was, unit = f"{course[number]:.6g}", _unit(claim)
        known = sorted({value for value in course if value is not None})
        place = f"after {plural(number, 'step')} of its schedulers" if claim.get("by") else f"at its step {number}"
        now = f"and is {seen}{unit} {place} in the candidate"
        title = f"The learning rate of {_whom(claim)} stayed {_constant(claim, known[0])} in the golden run {now}."
        if len(known) > 1:
            what = f"The learning-rate schedule of {_whom(claim)}"
            title = f"{what} gave {was}{unit} {place} in the golden run and gives {seen} in the candidate."
        rates = _schedules(process, step.optimizer)[int(claim["group"])]
        whole = _relative(claim, process, step.optimizer, rates)
        return Finding(
            title,
            f"{_listed(course)}{unit}",
            f"{_listed(whole)}{unit}" + (f" (learning rate {_listed(rates)})" if unit else ""),
            value=course_text(whole),
        )


def is_base(claim: Mapping[str, Any]) -> bool:
    """Whether a claim is about what a schedule is relative to, and not about its course."""
    return "value" in claim


def is_relative(claim: Mapping[str, Any]) -> bool:
    """Whether a claim is about a course that is relative to its base."""
    return "factors" in claim


def _setting(claim: Mapping[str, Any]) -> Setting | None:
    """None for rates of which nobody knows what they are relative to."""
    if is_base(claim):
        return Setting(Sort.BASE, str(claim.get("base", "")), text_of(claim["value"]), is_rate=True)
    if not is_relative(claim):
        return None
    course = tuple(None if factor is None else text_of(factor) for factor in claim["factors"])
    return Setting(Sort.COURSE, str(claim.get("base", "")), course=course)


def _course(claim: Mapping[str, Any]) -> Sequence[float | None]:
    course: Sequence[float | None] = claim["factors" if is_relative(claim) else "values"]
    return course


def _whom(claim: Mapping[str, Any]) -> str:
    return f"`{claim['optimizer']}` (group {claim['group']})"


def _unit(claim: Mapping[str, Any]) -> str:
    return f" times its `{claim['base']}`" if is_relative(claim) else ""


def _constant(claim: Mapping[str, Any], value: float) -> str:
    return f"at its `{claim['base']}`" if is_relative(claim) and value == 1 else f"{value:.4g}{_unit(claim)}"


def _listed(course: Sequence[float | None]) -> str:
    shown = ", ".join("any" if value is None else f"{value:.4g}" for value in course[:SHOWN])
    return shown + (", ..." if len(course) > SHOWN else "")


def _claims(process: Process, optimizer: int) -> Iterable[dict[str, Any]]:
    bases = base_rates(process, optimizer)
    followed = _follows_a_metric(process, optimizer)
    scaled = bool(len(process.rows_of_type("scaler")))
    for group, rates in _schedules(process, optimizer).items():
        about = {"optimizer": process.names.optimizers[optimizer], "group": group}
        if group in bases:
            about["base"] = bases[group][0]
            # One base for all groups is what `Hyperparameter` claims.
            if len(set(bases.values())) > 1:
                yield {**about, "value": bases[group][1]}
        relative = _over(rates, bases[group][1]) if group in bases else [float(f"{rate:.10g}") for rate in rates]
        values = _by_place(relative, _places(process, optimizer)) if scaled else relative
        if values and not followed:
            course = {**about, "factors" if group in bases else "values": values}
            yield {**course, "by": BY_SCHEDULER} if scaled else course


def _over(rates: Sequence[float], base: float) -> list[float]:
    return [float(f"{rate / base:.{DIGITS}g}") for rate in rates]


def _relative(claim: Mapping[str, Any], process: Process, optimizer: int, rates: Sequence[float]) -> Sequence[float]:
    """Rates as the claim tells them; none where the base that it tells them by is not known."""
    if not is_relative(claim):
        return rates
    base = base_rates(process, optimizer).get(int(claim["group"]))
    return _over(rates, base[1]) if base is not None and base[0] == claim["base"] else []


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
        for step in steps_of(process, optimizer)[:LIMIT]:
            for group, rate in learning_rates(process, optimizer, step.begin).items():
                schedules.setdefault(group, []).append(rate)
        return schedules

    return process.memo(("schedule", optimizer), compute)


def _places(process: Process, optimizer: int) -> list[int]:
    """For each step of the optimizer how often its schedulers had been stepped since the training began."""

    def compute() -> list[int]:
        events = process.events
        rows = process.rows_of_type("scheduler")
        rows = rows[(events["opt"][rows] == optimizer) & ~process.inside("scheduler")[rows]]
        backward = process.rows_of_type("autograd")
        begun = rows[rows > (backward[0] if len(backward) else 0)]
        ends = np.sort(events["end"][begun].astype(np.int64))
        begins = [step.begin for step in steps_of(process, optimizer)]
        places: list[int] = np.searchsorted(ends, begins).tolist()
        return places

    return process.memo(("places in the schedule", optimizer), compute)


def _by_place(rates: Sequence[float], places: Sequence[int]) -> list[float | None]:
    """The rate of each place up to the last, `None` where no step was taken; empty if there are two for one place."""
    found: dict[int, float] = {}
    for rate, place in zip(rates, places, strict=False):
        if place < LIMIT and not _close(found.setdefault(place, rate), rate):
            return []
    return [found.get(place) for place in range(max(found, default=-1) + 1)]


def _base_examples(process: Process, position: int, optimizer: int, claim: Mapping[str, Any]) -> Examples:
    base = base_rates(process, optimizer).get(int(claim["group"]))
    if base is None or base[0] != claim["base"]:
        return EMPTY
    return Examples(
        np.array([_close(base[1], claim["value"])]),
        np.array([position]),
        np.array([construction_row(process, optimizer)]),
        np.zeros(1, dtype=np.int64),
        {"rank": rank_label(process, 1)},
        Labels.constant(text_of(base[1]), 1),
    )


def _examples(process: Process, position: int, optimizer: int, claim: Mapping[str, Any]) -> Examples:
    rates = _relative(claim, process, optimizer, _schedules(process, optimizer).get(int(claim["group"]), []))
    places = _places(process, optimizer) if claim.get("by") else range(len(rates))
    course = _course(claim)
    steps = [step.row for step in steps_of(process, optimizer)]
    found = [
        (row, rate, wanted)
        for row, rate, place in zip(steps, rates, places, strict=False)
        if place < len(course) and (wanted := course[place]) is not None
    ]
    size = len(found)
    return Examples(
        np.array([_close(rate, wanted) for _, rate, wanted in found], dtype=bool),
        np.full(size, position),
        np.array([row for row, _, _ in found], dtype=np.int64),
        np.zeros(size, dtype=np.int64),
        {"rank": rank_label(process, size)},
        Labels.of(np.arange(size), [text_of(rate) for _, rate, _ in found]) if size else None,
    )


def _close(value: float, wanted: float) -> bool:
    return math.isclose(value, wanted, rel_tol=1e-6, abs_tol=1e-12)
