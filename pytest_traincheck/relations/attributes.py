"""Attributes: numbers, texts and flags that are set on modules have the same values step by step, and in evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, pairwise
from typing import Annotated, ClassVar, Literal

import numpy as np

from pytest_traincheck.looks import ATTRIBUTES, Looks
from pytest_traincheck.relations.attribute_courses import (
    ABSENT,
    LIMIT,
    Attribute,
    Course,
    courses,
    elements,
    evaluated,
    evaluations,
    of_libraries,
)
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, listed
from pytest_traincheck.relations.claims import Items, Natural
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.meaning import Meaning, Place, Words
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels

_MOST = 64
"""Names in a claim."""
COUNTS = 0.5
"""Share of the steps in which a whole number that changes in more of them counts something: calls, steps, examples. How
often something is called is said by other rules, and is no business of the model.
"""
_TO, _AT, _AFTER = " to ", " at step ", " after step "


@dataclass(frozen=True)
class ValuesAre(Claim):
    """An attribute of modules of a root has these values: for each module, by its path, a course as `_text` writes it.

    `elements` are those of all parameters of the root. In a model of another size other whole numbers are to be
    expected, and rules about parameters speak of that.
    """

    model: str
    attribute: str
    modules: Annotated[tuple[str, ...], Items(1)]
    values: Annotated[tuple[str, ...], Items(1)]
    elements: Natural


@dataclass(frozen=True)
class ValuesInEvaluation(Claim):
    """The same in evaluation after these numbers of steps, where that is not what the attribute is in training."""

    evaluated: Literal[True] = field(default=True, init=False)
    model: str
    attribute: str
    modules: Annotated[tuple[str, ...], Items(1)]
    values: Annotated[tuple[str, ...], Items(1)]
    after: Annotated[tuple[Natural, ...], Items(1, 2 * LIMIT)]
    elements: Natural


@dataclass(frozen=True)
class AsInTraining(Claim):
    """Attributes of these names, of any module of a model, are in evaluation what they are in the step before or after
    it.
    """

    model: str
    names: Annotated[tuple[str, ...], Items(1, _MOST)]


AnyClaim = ValuesAre | ValuesInEvaluation | AsInTraining


class Attributes:
    """An attribute has the same value before the first step, and changes to the same values before the same steps.

    Where a candidate's module has no such attribute, nothing is said: it may have been renamed. Neither is it of what
    differs between golden seeds, of counts, and of a model of another size.
    """

    name = "Attributes"
    looks: ClassVar[Looks] = frozenset({ATTRIBUTES})
    claims: ClassVar[tuple[type[Claim], ...]] = (ValuesAre, ValuesInEvaluation, AsInTraining)

    def layer(self, claim: AnyClaim) -> int:
        return 1

    def meaning(self, rule: Invariant[AnyClaim]) -> Meaning:
        claim = rule.claim
        return Meaning(
            Place.CHOICE,
            by_length=_changes(claim),
            words=Words(words=claim.names if isinstance(claim, AsInTraining) else (claim.attribute,)),
        )

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            size = elements(process)
            for (model, attribute), found in _by_attribute(process, courses(process)).items():
                values = tuple(_text(course) for course in found.values())
                claim = ValuesAre(model, attribute, tuple(found), values, size.get(model, 0))
                yield Hypothesis(self.name, f"{model}.{attribute}", claim, Kind.CONFIG, Scope.PINNED)
            alike, other = _in_evaluation(process)
            taken = [steps for steps, _ in evaluations(process)]
            for (model, attribute), found in _by_attribute(process, other).items():
                there = [any(course[at] != ABSENT for course in found.values()) for at in range(len(taken))]
                after = tuple(compress(taken, there))
                values = tuple(_text(tuple(compress(course, there)), _AFTER, after) for course in found.values())
                late = ValuesInEvaluation(model, attribute, tuple(found), values, after, size.get(model, 0))
                yield Hypothesis(self.name, f"{model}.{attribute}", late, Kind.CONFIG, Scope.PINNED)
            for model in sorted({model for model, _, _ in alike}):
                names = tuple(sorted({attribute for root, _, attribute in alike if root == model}))
                if len(names) <= _MOST:
                    yield Hypothesis(self.name, model, AsInTraining(model, names), Kind.CONFIG, Scope.PINNED)

    def examples(self, claim: AnyClaim, run: Run) -> Examples:
        return Examples.concatenate(
            [
                _as_in_training(process, number, claim)
                if isinstance(claim, AsInTraining)
                else _examples(process, number, claim)
                for number, process in enumerate(run.processes)
            ]
        )

    def sentence(self, claim: AnyClaim, subject: str, when: str) -> str:
        if isinstance(claim, AsInTraining):
            return f"In evaluation {listed(claim.names)} of `{claim.model}` are what they are in training{when}."
        where = "" if isinstance(claim, ValuesAre) else "in evaluation "
        whose = _whose(claim.attribute, _names(claim, claim.modules))
        return f"{whose} is {where}{_listed(claim.values)}{when}."

    def finding(self, invariant: Invariant[AnyClaim], run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        position = int(broken[0])
        process = run.processes[int(examples.process[position])]
        if isinstance(claim, AsInTraining):
            (model, path, attribute), there, trained = _unlike(process, claim)[0]
            whose = f"The attribute `{attribute}` of `{f'{model}.{path}' if path else model}`"
            return Finding(
                f"{whose} was in evaluation what it was in training in the golden run; in the candidate it is {there} "
                f"there, and {trained} in training.",
                f"{attribute} as in training",
                f"{attribute} = {there} in evaluation, {trained} in training",
                value=there,
                common_cause=f"{attribute} {trained} {there}",
            )
        golden = dict(zip(claim.modules, claim.values, strict=False))
        differing = [
            (path, was, now)
            for path, was, now in _pairs(process, claim, golden)
            if _first_difference(was, now) is not None
        ]
        path, was, now = differing[0]
        step = _first_difference(was, now) or 0
        whose = _whose(claim.attribute, _names(claim, [path for path, _, _ in differing]))
        before = "before the first step" if not step else f"before step {step}"
        if isinstance(claim, ValuesInEvaluation):
            before = f"in evaluation after {claim.after[step]} steps"
        return Finding(
            f"{whose} was {was[step]} {before} in the golden run and is {now[step]} in the candidate.",
            f"{claim.attribute} = {golden[path]}",
            f"{claim.attribute} = {now[step] if isinstance(claim, ValuesInEvaluation) else _text(now)}",
            value=_text(now),
            # A model and its copies have the attribute from one line of code.
            common_cause=f"{claim.attribute} {was[step]} {now[step]}",
            modules=tuple(_names(claim, [path for path, _, _ in differing])),
            changed=(was[step], now[step]),
        )


def _by_attribute(
    process: Process, found: Mapping[Attribute, Course]
) -> Mapping[tuple[str, str], Mapping[str, Course]]:
    """Model and attribute -> path of each module -> its course, of the attributes that tell something."""
    table: dict[tuple[str, str], dict[str, Course]] = {}
    for (model, path, attribute), course in found.items():
        if _is_telling(course, of_library=(model, path, attribute) in of_libraries(process)):
            table.setdefault((model, attribute), {})[path] = course
    return dict(sorted(table.items()))


def _in_evaluation(process: Process) -> tuple[list[Attribute], Mapping[Attribute, Course]]:
    """Attributes that are in evaluation what they are in training, and those that are not, or are there only, as
    courses.
    """
    alike, other = [], {}
    # What counts something in one model does so in another, of which a single value was seen.
    counting = {key[2] for key, course in courses(process).items() if _counts(course)}
    for key, course in evaluated(process).items():
        if key[2] in counting:
            continue
        trained = courses(process).get(key)
        library = key in of_libraries(process)
        if trained is None or all(value == ABSENT for value in trained):
            other[key] = course
        elif _is_telling(trained, of_library=library):
            if any(True for _ in _unlike_training(process, course, trained)):
                other[key] = course
            else:
                alike.append(key)
    return alike, other


def _unlike_training(process: Process, course: Course, trained: Course) -> Iterable[tuple[int, str, str]]:
    """Row, value and value in training for each evaluation in which it is neither that of the step before nor of the
    one after. What these had is not known where not every step was looked at, unless it is one value in all of them.
    """
    stays = len(set(trained)) == 1
    for (taken, row), value in zip(evaluations(process), course, strict=True):
        if not stays and not _were_looked_at(process, taken):
            continue
        around = {trained[step] for step in (taken - 1, taken) if 0 <= step < len(trained)}
        if taken <= len(trained) and around and value != ABSENT and ABSENT not in around and value not in around:
            yield row, value, trained[min(taken, len(trained)) - 1]


def _were_looked_at(process: Process, taken: int) -> bool:
    """Whether the steps around an evaluation after so many of them follow each other, and were looked at."""
    stretch = process.raw.stretch
    return not process.sampled and (stretch is None or taken < stretch.head)


def _unlike(process: Process, claim: AsInTraining) -> list[tuple[Attribute, str, str]]:
    """What is not in evaluation what it is in training: its value in the first such evaluation, and in training."""
    found: list[tuple[Attribute, str, str]] = []
    for key, course in evaluated(process).items():
        trained = courses(process).get(key)
        if key[0] == claim.model and key[2] in claim.names and trained is not None:
            found += [(key, now, was) for _, now, was in _unlike_training(process, course, trained)][:1]
    return found


def _as_in_training(process: Process, position: int, claim: AsInTraining) -> Examples:
    """One example for each attribute of each module."""
    rows, holds, seen = [], [], []
    for key, course in evaluated(process).items():
        trained = courses(process).get(key)
        if key[0] != claim.model or key[2] not in claim.names or trained is None:
            continue
        unlike = list(_unlike_training(process, course, trained))
        rows.append(unlike[0][0] if unlike else evaluations(process)[0][1])
        holds.append(not unlike)
        seen.append(unlike[0][1] if unlike else "")
    if not rows:
        return EMPTY
    size = len(rows)
    return Examples(
        np.array(holds, dtype=bool),
        np.full(size, position),
        np.array(rows, dtype=np.int64),
        np.zeros(size, dtype=np.int64),
        {"rank": rank_label(process, size)},
        Labels.of(np.arange(size), seen),
    )


def _whose(attribute: str, modules: Sequence[str]) -> str:
    return f"The attribute `{attribute}` of {listed(modules)}"


def _names(claim: ValuesAre | ValuesInEvaluation, paths: Sequence[str]) -> list[str]:
    return [f"{claim.model}.{path}" if path else claim.model for path in paths]


def _listed(values: Sequence[str]) -> str:
    """The different values, in the order of the modules."""
    different = list(dict.fromkeys(values))
    return "; ".join(different[:4]) + ("; ..." if len(different) > 4 else "")


def _text(course: Course, mark: str = _AT, places: Sequence[int] | None = None) -> str:
    """A course as its first value and what it changes to, as in "0 to 0.1 at step 4 to 0.2 at step 8"."""
    parts = [course[0]]
    for step, (before, now) in enumerate(pairwise(course), start=1):
        if now != before:
            parts.append(f"{_TO}{now}{mark}{step if places is None else places[step]}")
    return "".join(parts)


def _changes(claim: AnyClaim) -> bool:
    """Whether an attribute takes another value at some step, or after some."""
    return not isinstance(claim, AsInTraining) and any(_TO in value for value in claim.values)


def _read(text: str, steps: int) -> Course:
    """The course of so many steps that `_text` made a text of."""
    first, *changes = text.split(_TO)
    course = [first] * steps
    for change in changes:
        value, _, step = change.rpartition(_AT)
        course[int(step) :] = [value] * max(steps - int(step), 0)
    return tuple(course)


def _read_at(text: str, places: Sequence[int]) -> Course:
    """The course at so many places that `_text` made a text of with `_AFTER`."""
    first, *changes = text.split(_TO)
    course = [first] * len(places)
    for change in changes:
        value, _, place = change.rpartition(_AFTER)
        course = [
            value if place.isdigit() and at >= int(place) else known for at, known in zip(places, course, strict=True)
        ]
    return tuple(course)


def _is_telling(course: Course, *, of_library: bool) -> bool:
    """Whether a course says something about the model: it is no count, and modules of libraries are left to the rules
    about the functions that they call, unless somebody changes them.
    """
    values = [value for value in course if value != ABSENT]
    if len(set(values)) < 2:
        return bool(values) and not of_library
    return not _counts(course)


def _counts(course: Course) -> bool:
    """Whether it is a whole number that changes in most steps."""
    values = [value for value in course if value != ABSENT]
    changes = sum(before != now for before, now in pairwise(values))
    whole = all(value.lstrip("-").isdigit() for value in values)
    return whole and changes > COUNTS * max(len(values) - 1, 0)


def _pairs(
    process: Process, claim: ValuesAre | ValuesInEvaluation, golden: Mapping[str, str]
) -> Iterable[tuple[str, Course, Course]]:
    """Path, golden's course and the process's own, over the steps or evaluations that both have."""
    if elements(process).get(claim.model, 0) != claim.elements:
        return
    if isinstance(claim, ValuesAre):
        for path, text in golden.items():
            course = courses(process).get((claim.model, path, claim.attribute))
            if course is not None:
                yield path, _read(text, len(course)), course
        return
    place = {taken: number for number, (taken, _) in enumerate(evaluations(process))}
    for path, text in golden.items():
        course = evaluated(process).get((claim.model, path, claim.attribute))
        if course is not None:
            now = tuple(course[place[taken]] if taken in place else ABSENT for taken in claim.after)
            yield path, _read_at(text, claim.after), now


def _first_difference(was: Course, now: Course) -> int | None:
    """The first step at which both have a value, and it is not the same."""
    return next(
        (
            step
            for step, (one, other) in enumerate(zip(was, now, strict=False))
            if one != other and ABSENT not in (one, other)
        ),
        None,
    )


def _examples(process: Process, position: int, claim: ValuesAre | ValuesInEvaluation) -> Examples:
    """One example for each module that has the attribute, at the first step or evaluation that differs."""
    golden = dict(zip(claim.modules, claim.values, strict=False))
    pairs = list(_pairs(process, claim, golden))
    if not pairs:
        return EMPTY
    if isinstance(claim, ValuesAre):
        rows = [step.row for step in process.lead_steps]
    else:
        known = dict(evaluations(process))
        rows = [known.get(taken, next(iter(known.values()))) for taken in claim.after]
    differences = [_first_difference(was, now) for _, was, now in pairs]
    size = len(pairs)
    return Examples(
        np.array([step is None for step in differences], dtype=bool),
        np.full(size, position),
        np.array([rows[step or 0] for step in differences], dtype=np.int64),
        np.zeros(size, dtype=np.int64),
        {"rank": rank_label(process, size)},
        Labels.of(np.arange(size), [_text(now) for _, _, now in pairs]),
    )
