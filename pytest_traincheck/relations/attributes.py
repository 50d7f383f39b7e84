"""Attributes: numbers, texts and flags that are set on modules have the same values step by step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, listed
from pytest_traincheck.relations.claims import Items, Natural
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.meaning import Meaning, Place, Words
from pytest_traincheck.relations.settings import argument_text, text_of
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels

LIMIT = 32
"""Steps whose values are looked at; a probe looks no longer."""
COUNTS = 0.5
"""Share of the steps in which a whole number that changes in more of them counts something: calls, steps, examples. How
often something is called is said by other rules, and is no business of the model.
"""
_TO, _AT = " to ", " at step "
ABSENT = "absent"
"""What stands for the value of an attribute, or of a module, that is not there yet."""

Attribute = tuple[str, str, str]
"""A root, the path of a module below it, and the name of an attribute."""
Course = tuple[str, ...]
"""The value before each step, as text."""


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


class Attributes:
    """An attribute has the same value before the first step, and changes to the same values before the same steps.

    Where a candidate's module has no such attribute, nothing is said: it may have been renamed. Neither is it of what
    differs between golden seeds, of counts, and of a model of another size.
    """

    name = "Attributes"
    claims: ClassVar[tuple[type[Claim], ...]] = (ValuesAre,)

    def layer(self, claim: ValuesAre) -> int:
        return 1

    def meaning(self, rule: Invariant[ValuesAre]) -> Meaning:
        return Meaning(Place.CHOICE, words=Words(words=(rule.claim.attribute,)))

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            found: dict[tuple[str, str], dict[str, str]] = {}
            for (model, path, attribute), course in _courses(process).items():
                if _is_telling(course, of_library=(model, path, attribute) in _of_libraries(process)):
                    found.setdefault((model, attribute), {})[path] = _text(course)
            for (model, attribute), values in sorted(found.items()):
                claim = ValuesAre(
                    model, attribute, tuple(values), tuple(values.values()), _elements(process).get(model, 0)
                )
                yield Hypothesis(self.name, f"{model}.{attribute}", claim, Kind.CONFIG, Scope.PINNED)

    def examples(self, claim: ValuesAre, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: ValuesAre, subject: str, when: str) -> str:
        return f"{_whose(claim.attribute, _names(claim, claim.modules))} is {_listed(claim.values)}{when}."

    def finding(self, invariant: Invariant[ValuesAre], run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        position = int(broken[0])
        process = run.processes[int(examples.process[position])]
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
        return Finding(
            f"{whose} was {was[step]} {before} in the golden run and is {now[step]} in the candidate.",
            f"{claim.attribute} = {golden[path]}",
            f"{claim.attribute} = {_text(now)}",
            value=_text(now),
            # A model and its copies have the attribute from one line of code.
            common_cause=f"{claim.attribute} {was[step]} {now[step]}",
            modules=tuple(_names(claim, [path for path, _, _ in differing])),
            changed=(was[step], now[step]),
        )


def _whose(attribute: str, modules: Sequence[str]) -> str:
    return f"The attribute `{attribute}` of {listed(modules)}"


def _names(claim: ValuesAre, paths: Sequence[str]) -> list[str]:
    return [f"{claim.model}.{path}" if path else claim.model for path in paths]


def _listed(values: Sequence[str]) -> str:
    """The different values, in the order of the modules."""
    different = list(dict.fromkeys(values))
    return "; ".join(different[:4]) + ("; ..." if len(different) > 4 else "")


def _text(course: Course) -> str:
    """A course as its first value and what it changes to, as in "0 to 0.1 at step 4 to 0.2 at step 8"."""
    parts = [course[0]]
    for step, (before, now) in enumerate(pairwise(course), start=1):
        if now != before:
            parts.append(f"{_TO}{now}{_AT}{step}")
    return "".join(parts)


def _read(text: str, steps: int) -> Course:
    """The course of so many steps that `_text` made a text of."""
    first, *changes = text.split(_TO)
    course = [first] * steps
    for change in changes:
        value, _, step = change.rpartition(_AT)
        course[int(step) :] = [value] * max(steps - int(step), 0)
    return tuple(course)


def _is_telling(course: Course, *, of_library: bool) -> bool:
    """Whether a course says something about the model: it is no count, and modules of libraries are left to the rules
    about the functions that they call, unless somebody changes them.
    """
    values = [value for value in course if value != ABSENT]
    changes = sum(before != now for before, now in pairwise(values))
    if not changes:
        return not of_library
    whole = all(value.lstrip("-").isdigit() for value in values)
    return not whole or changes <= COUNTS * (len(values) - 1)


def _of_libraries(process: Process) -> frozenset[Attribute]:
    """Attributes of modules whose classes are a library's: another version of it may keep others. What a user's module
    has that was put into the place of one, as adapters are, is none.
    """

    def compute() -> frozenset[Attribute]:
        seen = list(_seen(process))
        others = {attribute for attribute, _, _, of_library in seen if not of_library}
        return frozenset(attribute for attribute, _, _, of_library in seen if of_library) - others

    return process.memo("attributes of libraries' modules", compute)


def _courses(process: Process) -> Mapping[Attribute, Course]:
    """The value of each attribute before each step."""

    def compute() -> Mapping[Attribute, Course]:
        begins = [step.begin for step in process.lead_steps[:LIMIT]]
        found: dict[Attribute, list[tuple[int, str]]] = {}
        for attribute, seq, value, _ in _seen(process):
            found.setdefault(attribute, []).append((seq, value))
        return {attribute: _course(begins, values) for attribute, values in found.items()} if begins else {}

    return process.memo("courses of attributes", compute)


def _seen(process: Process) -> Iterable[tuple[Attribute, int, str, bool]]:
    """An attribute, when it was seen, its value, and whether it was one of a library's modules, in order of time."""
    roots = process.names.roots
    users = {symbol["name"] for symbol in process.raw.symbols["api"][1:] if symbol.get("library") == "user"}
    for symbol in process.raw.symbols["attribute"][1:]:
        module = process.raw.symbols["mod"][symbol["mod"]]
        root = roots[module.get("root", 0)] if module else ""
        of_library = module.get("class") not in users
        for name, value in symbol["values"].items() if root else ():
            yield (root, str(module.get("path", "")), name), symbol["seq"], _value(value), of_library


def _value(value: Any) -> str:
    if isinstance(value, Mapping) and "tuple" in value:
        return "(" + ", ".join(map(text_of, value["tuple"])) + ")"
    return f'"{value}"' if isinstance(value, str) else argument_text(value)


def _course(begins: Sequence[int], values: Sequence[tuple[int, str]]) -> Course:
    times = np.array([seq for seq, _ in values], dtype=np.int64)
    texts = [ABSENT, *(text for _, text in values)]
    return tuple(texts[int(number)] for number in np.searchsorted(times, begins, side="right"))


def _elements(process: Process) -> Mapping[str, int]:
    """Root -> the elements of all its parameters."""

    def compute() -> Mapping[str, int]:
        found: dict[str, int] = {}
        for symbol in process.raw.symbols["var"][1:]:
            if symbol.get("kind") == "parameter" and not symbol.get("same", 0):
                root = process.names.roots[symbol.get("root", 0)]
                found[root] = found.get(root, 0) + int(np.prod(symbol.get("shape") or [1]))
        return found

    return process.memo("elements of models", compute)


def _pairs(process: Process, claim: ValuesAre, golden: Mapping[str, str]) -> Iterable[tuple[str, Course, Course]]:
    """Path, golden's course and the process's own, over the steps that both have."""
    if _elements(process).get(claim.model, 0) != claim.elements:
        return
    courses = _courses(process)
    for path, text in golden.items():
        course = courses.get((claim.model, path, claim.attribute))
        if course is not None:
            yield path, _read(text, len(course)), course


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


def _examples(process: Process, position: int, claim: ValuesAre) -> Examples:
    """One example for each module that has the attribute, at the first step that differs."""
    golden = dict(zip(claim.modules, claim.values, strict=False))
    pairs = list(_pairs(process, claim, golden))
    if not pairs:
        return EMPTY
    steps = [step.row for step in process.lead_steps]
    differences = [_first_difference(was, now) for _, was, now in pairs]
    size = len(pairs)
    return Examples(
        np.array([step is None for step in differences], dtype=bool),
        np.full(size, position),
        np.array([steps[step or 0] for step in differences], dtype=np.int64),
        np.zeros(size, dtype=np.int64),
        {"rank": rank_label(process, size)},
        Labels.of(np.arange(size), [_text(now) for _, _, now in pairs]),
    )
