"""Schedule: the learning rate takes the same course in every run, relative to its base.

The base (`lr` as the optimizer was made with it, or `max_lr` of a scheduler that has one) and the course relative to
it are decided in two places of a program, so they are two claims: a smaller rate breaks the one, a longer warm-up the
other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.claims import Items, Natural
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.covered import construction_row
from pytest_traincheck.relations.hyperparameter import (
    base_rates,
    class_of,
    optimizers_called,
)
from pytest_traincheck.relations.meaning import Basic, Evidence, Meaning, Place, Words
from pytest_traincheck.relations.rates_in_order import (
    LIMIT,
    follows_a_metric,
    parts_of,
    places_of,
    rates_of,
    scheduler_rows,
    skips_before,
    steps_taken,
)
from pytest_traincheck.relations.rates_resumed import GOES_ON, rates_at_resumes
from pytest_traincheck.relations.settings import Setting, Sort, course_text, text_of
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.text import plural
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels

SHOWN = 8
"""Steps that a sentence shows."""
BY_SCHEDULER: Final = "scheduler steps"
"""What rates are counted by where a gradient scaler skipped steps as the data had it, while the schedule went on."""
DIGITS = 12
"""Significant digits of a factor; a quotient of two rates is exact to about fifteen."""

Values = Annotated[tuple[float | None, ...], Items(1)]
Skips = tuple[Natural, ...]
"""How many steps a gradient scaler had skipped before each step; nothing where it skipped none."""


@dataclass(frozen=True)
class Base(Claim):
    """What the learning rates of a group are relative to."""

    optimizer: str
    group: Natural
    base: str
    value: float


@dataclass(frozen=True)
class Course(Claim):
    """The learning rates of a group, as multiples of its base; None for a step without any."""

    optimizer: str
    group: Natural
    base: str
    factors: Values
    by: Literal["scheduler steps"] | None = None
    skipped: Skips = ()


@dataclass(frozen=True)
class Rates(Claim):
    """The learning rates of a group as they are: where their base is not known, and in goldens of earlier versions."""

    optimizer: str
    group: Natural
    values: Values
    by: Literal["scheduler steps"] | None = None
    skipped: Skips = ()


class Schedule:
    """The learning rate of a group takes the same values relative to its base, step by step. Where a gradient scaler
    skipped steps and schedulers went on, it does so after as many steps of the schedulers; without schedulers, at steps
    before which as many were skipped. Where groups have bases of their own, each is claimed too.

    A schedule that follows the loss differs between seeds and is no rule. Without a known base, rates are claimed as
    they are.
    """

    name = "Schedule"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (Base, Course, Rates)

    def layer(self, claim: Base | Course | Rates) -> int:
        return 1 if isinstance(claim, Base) else 3

    def meaning(self, rule: Invariant[Base | Course | Rates]) -> Meaning:
        # What a schedule is relative to is a choice of its own, and does not change its course.
        place = {Base: Place.CHOICE, Course: Place.COURSE, Rates: Place.RATE}[type(rule.claim)]
        return Meaning(
            place,
            by_length=not isinstance(rule.claim, Base),
            at_resumes=not isinstance(rule.claim, Base),
            basic=Basic.NONE if isinstance(rule.claim, Base) else Basic.RATES,
            basic_of=rule.claim.optimizer,
            words=Words(words=("lr", "learning_rate", "scheduler", "gamma", "step_size")),
            setting=_setting(rule.claim),
            shown_by=Evidence.RATED,
        )

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            for optimizer in sorted({parts_of(process, step.optimizer)[0] for step in process.steps}):
                subject = f"{class_of(process, optimizer)}.lr"
                for claim in _claims(process, optimizer):
                    yield Hypothesis(self.name, subject, claim, Kind.CONFIG, Scope.PINNED)

    def examples(self, claim: Base | Course | Rates, run: Run) -> Examples:
        places = optimizers_called(run, claim.optimizer)
        if isinstance(claim, Base):
            return Examples.concatenate([_base_examples(*place, claim) for place in places])
        found = [_examples(*place, claim) for place in places]
        return Examples.concatenate(
            [*found, *(resumed(process, at, claim) for at, process in enumerate(run.processes))]
        )

    def sentence(self, claim: Base | Course | Rates, subject: str, when: str) -> str:
        if isinstance(claim, Base):
            return f"`{subject[: -len('.lr')]}({claim.base})` of {_whom(claim)} is {text_of(claim.value)}{when}."
        what = f"The learning rate of {_whom(claim)}"
        known = [value for value in _course(claim) if value is not None]
        if len(set(known)) == 1:
            return f"{what} stays {_constant(claim, known[0])}{when}."
        way = " with the steps of its schedulers" if claim.by else ""
        if claim.skipped:
            way = ", as long as a gradient scaler skips as many steps"
        return f"{what} takes the values {_listed(_course(claim))}{_unit(claim)}{way}{when}."

    def finding(
        self, invariant: Invariant[Base | Course | Rates], run: Run, examples: Examples, broken: Ints
    ) -> Finding:
        claim = invariant.claim
        first = int(broken[0])
        seen = examples.observed[first] if examples.observed is not None else "?"
        if isinstance(claim, Base):
            was = text_of(claim.value)
            return Finding(
                f"`{claim.base}` of {_whom(claim)} was {was} in the golden run and is {seen} in the candidate.",
                f"{claim.base} = {was}",
                f"{claim.base} = {seen}",
                value=seen,
            )
        process = run.processes[int(examples.process[first])]
        if seen.startswith(GOES_ON):
            number = process.step_number(int(examples.row[first]))
            title = f"The learning rate of {_whom(claim)} went on from step to step in the golden run; "
            title += f"in the candidate training {seen.replace(GOES_ON, f'{GOES_ON} at step {number}')}."
            return Finding(title, "a training that is gone on with has the learning rate that it had", seen, value=seen)
        step = next(step for step in process.steps if step.row == int(examples.row[first]))
        number = [each.row for each in steps_taken(process, step.optimizer)].index(step.row)
        if claim.by:
            number = places_of(process, step.optimizer)[number]
        course = _course(claim)
        was, unit = f"{course[number]:.6g}", _unit(claim)
        known = sorted({value for value in course if value is not None})
        place = f"after {plural(number, 'step')} of its schedulers" if claim.by else f"at its step {number}"
        now = f"and is {seen}{unit} {place} in the candidate"
        title = f"The learning rate of {_whom(claim)} stayed {_constant(claim, known[0])} in the golden run {now}."
        if len(known) > 1:
            what = f"The learning-rate schedule of {_whom(claim)}"
            title = f"{what} gave {was}{unit} {place} in the golden run and gives {seen} in the candidate."
        rates = rates_of(process, step.optimizer)[claim.group]
        whole = _relative(claim, process, step.optimizer, rates)
        return Finding(
            title,
            f"{_listed(course)}{unit}",
            f"{_listed(whole)}{unit}" + (f" (learning rate {_listed(rates)})" if unit else ""),
            value=course_text(whole),
        )


def _setting(claim: Base | Course | Rates) -> Setting | None:
    """None for rates of which nobody knows what they are relative to."""
    if isinstance(claim, Base):
        return Setting(Sort.BASE, claim.base, text_of(claim.value), is_rate=True)
    if isinstance(claim, Rates):
        return None
    course = tuple(None if factor is None else text_of(factor) for factor in claim.factors)
    return Setting(Sort.COURSE, claim.base, course=course)


def _course(claim: Course | Rates) -> Sequence[float | None]:
    return claim.factors if isinstance(claim, Course) else claim.values


def _whom(claim: Base | Course | Rates) -> str:
    return f"`{claim.optimizer}` (group {claim.group})"


def _unit(claim: Course | Rates) -> str:
    return f" times its `{claim.base}`" if isinstance(claim, Course) else ""


def _constant(claim: Course | Rates, value: float) -> str:
    return f"at its `{claim.base}`" if isinstance(claim, Course) and value == 1 else f"{value:.4g}{_unit(claim)}"


def _listed(course: Sequence[float | None]) -> str:
    shown = ", ".join("any" if value is None else f"{value:.4g}" for value in course[:SHOWN])
    return shown + (", ..." if len(course) > SHOWN else "")


def _claims(process: Process, optimizer: int) -> Iterable[Base | Course | Rates]:
    bases = base_rates(process, optimizer)
    followed = follows_a_metric(process, optimizer)
    skips = skips_before(process, optimizer)
    scheduled = any(skips) and bool(len(scheduler_rows(process, optimizer)))
    for group, rates in rates_of(process, optimizer).items():
        label = process.names.optimizers[optimizer]
        # One base for all groups is what `Hyperparameter` claims.
        if group in bases and len(set(bases.values())) > 1:
            yield Base(label, group, *bases[group])
        relative = _over(rates, bases[group][1]) if group in bases else [float(f"{rate:.10g}") for rate in rates]
        if followed:
            continue
        # How a rate goes on behind a skipped step is up to who sets it: a scheduler counts its own steps.
        by_place = _by_place(relative, places_of(process, optimizer)) if scheduled else []
        by: Literal["scheduler steps"] | None = BY_SCHEDULER if by_place else None
        values = tuple(by_place or relative)
        behind = tuple(skips) if any(skips) and by is None else ()
        if group in bases:
            yield Course(label, group, bases[group][0], values, by, behind)
        else:
            yield Rates(label, group, values, by, behind)


def _over(rates: Sequence[float], base: float) -> list[float]:
    return [float(f"{rate / base:.{DIGITS}g}") for rate in rates]


def _relative(claim: Course | Rates, process: Process, optimizer: int, rates: Sequence[float]) -> Sequence[float]:
    """Rates as the claim tells them; none where the base that it tells them by is not known."""
    if isinstance(claim, Rates):
        return rates
    base = base_rates(process, optimizer).get(claim.group)
    return _over(rates, base[1]) if base is not None and base[0] == claim.base else []


def _by_place(rates: Sequence[float], places: Sequence[int]) -> list[float | None]:
    """The rate of each place up to the last, `None` where no step was taken; empty if there are two for one place."""
    found: dict[int, float] = {}
    for rate, place in zip(rates, places, strict=False):
        if place < LIMIT and not _close(found.setdefault(place, rate), rate):
            return []
    return [found.get(place) for place in range(max(found, default=-1) + 1)]


def _base_examples(process: Process, position: int, optimizer: int, claim: Base) -> Examples:
    base = base_rates(process, optimizer).get(claim.group)
    if base is None or base[0] != claim.base:
        return EMPTY
    return Examples(
        np.array([_close(base[1], claim.value)]),
        np.array([position]),
        np.array([construction_row(process, optimizer)]),
        np.zeros(1, dtype=np.int64),
        {"rank": rank_label(process, 1)},
        Labels.constant(text_of(base[1]), 1),
    )


def _examples(process: Process, position: int, optimizer: int, claim: Course | Rates) -> Examples:
    rates = _relative(claim, process, optimizer, rates_of(process, optimizer).get(claim.group, []))
    course = _course(claim)
    if process.raw.stretch is not None or optimizer != parts_of(process, optimizer)[0]:
        return EMPTY
    steps = [step.row for step in steps_taken(process, optimizer)]
    found = [
        (row, rate, wanted)
        for row, rate, place in zip(steps, rates, _told_by(claim, process, optimizer), strict=False)
        if place is not None and place < len(course) and (wanted := course[place]) is not None
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


def resumed(process: Process, position: int, claim: Course | Rates) -> Examples:
    """One example for each time that another optimizer takes the place of one with this name, in a part of a training
    of which no course is known.
    """
    if process.raw.stretch is None:
        return EMPTY
    found = rates_at_resumes(process, claim.optimizer, claim.group)
    return Examples(
        np.array([not each.wrong for each in found], dtype=bool),
        np.full(len(found), position),
        np.array([each.row for each in found], dtype=np.int64),
        np.zeros(len(found), dtype=np.int64),
        {"rank": rank_label(process, len(found))},
        Labels.of(np.arange(len(found)), [each.text for each in found]) if found else None,
    )


def _told_by(claim: Course | Rates, process: Process, optimizer: int) -> Iterable[int | None]:
    """For each step the place of the course that tells its rate; None where no place does.

    A course by the steps of schedulers tells nothing about a loop that sets its rates without one. One by steps tells
    nothing about a step before which another number of them was skipped than in golden: whether the skipped ones count
    is up to the program.
    """
    if claim.by:
        return places_of(process, optimizer) if len(scheduler_rows(process, optimizer)) else ()
    mine = skips_before(process, optimizer)
    golden = claim.skipped or (0,) * len(mine)
    return [number if skips == known else None for number, (skips, known) in enumerate(zip(mine, golden, strict=False))]


def _close(value: float, wanted: float) -> bool:
    return math.isclose(value, wanted, rel_tol=1e-6, abs_tol=1e-12)
