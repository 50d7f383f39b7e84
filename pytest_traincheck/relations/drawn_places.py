"""Where a training step draws, of golden and of a candidate: the first place that differs, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_traincheck.golden.numbers import Numbers
from pytest_traincheck.relations.draws import half_seen, places
from pytest_traincheck.trace import Process, Run

_BETWEEN = "|"
"""Stands in the name of a number between the step, the place and the function."""


@dataclass(frozen=True)
class Elsewhere:
    """The first place of a step that draws something else than golden's."""

    title: str
    golden: str
    candidate: str
    numbers: int
    """How many the candidate draws there."""
    source: str


def places_of(run: Run) -> dict[str, float]:
    """The numbers that each place of a step draws, and the elements that each function draws there, by name."""
    found: dict[str, float] = {}
    for process in run.processes:
        for step in places(process):
            found.update(_named(process, step))
    return found


def elsewhere(process: Process, step: int, golden: Numbers, wanted: int) -> Elsewhere | None:
    """The place, where both golden's step, which draws `wanted` numbers, and the candidate's were looked at closely
    enough.
    """
    prefix = f"{process.rank}.{step}{_BETWEEN}"
    ours = {name: float(golden.low[at]) for name, at in golden.position.items() if name.startswith(prefix)}
    theirs = _named(process, step)
    if step in half_seen(process) or not (ours or (theirs and not wanted)):
        return None
    for name in dict.fromkeys((*theirs, *ours)):
        place, function = name.removeprefix(prefix).split(_BETWEEN, 1)
        if not function and ours.get(name, 0.0) != theirs.get(name, 0.0):
            source = next((draw.source for draw in places(process).get(step, ()) if draw.place == place), "")
            return _worded(place, step, _at(ours, name), _at(theirs, name), source if name in theirs else "")
    return None


@dataclass(frozen=True)
class _At:
    """What is drawn in one place: numbers, and elements by function."""

    numbers: int
    functions: Mapping[str, int]

    def __str__(self) -> str:
        if not self.numbers:
            return "none"
        if not self.functions:
            return str(self.numbers)
        return " and ".join(f"{elements} with `{name}`" for name, elements in self.functions.items())


def _at(found: Mapping[str, float], name: str) -> _At:
    functions = {
        key.removeprefix(name): int(value) for key, value in found.items() if key.startswith(name) and key != name
    }
    return _At(int(found.get(name, 0.0)), functions)


def _named(process: Process, step: int) -> dict[str, float]:
    prefix = f"{process.rank}.{step}{_BETWEEN}"
    found: dict[str, float] = {}
    for draw in places(process).get(step, ()):
        place = f"{prefix}{draw.place}{_BETWEEN}"
        found[place] = found.get(place, 0.0) + draw.words
        if draw.function:
            found[place + draw.function] = found.get(place + draw.function, 0.0) + draw.elements
    return found


def _worded(place: str, step: int, golden: _At, candidate: _At, source: str) -> Elsewhere:
    who = f"`{place}`" if place else "the training loop"
    if not golden.numbers:
        title = f"In the golden run {who} drew no random numbers in step {step}; in the candidate it draws {candidate}."
    else:
        title = f"In the golden run {who} drew random numbers in step {step}, {golden}; in the candidate {candidate}."
    return Elsewhere(title, f"drawn: {golden}", f"drawn: {candidate}", candidate.numbers, source)
