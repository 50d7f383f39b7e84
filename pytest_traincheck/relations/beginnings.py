"""What parameters begin with, as a trace has it: whether their elements differ, and what else has the same values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from pytest_traincheck.trace import Process
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints, among
from pytest_traincheck.trace.reader import read_sketches
from pytest_traincheck.trace.variables import Variables

VARIED = 1e-3
"""Share of the variance in the mean square from which on elements differ for sure, for all that a sum in single
precision tells.
"""
ENOUGH = 16
"""Elements that must be equal before that is no chance: few numbers of few values are the same now and then."""

Shape = Literal["even", "with tails", "orthogonal", "not orthogonal"]
EVEN, TAILS = 1.9, 2.3
"""How far the farthest of at least 256 elements is from the mean, in standard deviations, at most where they are drawn
evenly between two bounds, and at least where they are drawn with tails. Of as many normal ones none is beyond the first
once in four million times.
"""

Content = tuple[int, float, float, float, float, float, float]
"""A sketch as far as it is content: size, norm, mean and projections."""


@dataclass(frozen=True)
class First:
    """A parameter at the first look: its variable, the row and time of the look, and its content hash."""

    variable: int
    row: int
    seq: int
    digest: int
    elements: int
    spread: float
    """Variance of the elements in their mean square: about 0 where all are equal, or zero."""
    zero: bool
    equal: bool = False
    """Whether all elements are the same to the last bit, and that is no chance."""
    shape: frozenset[Shape] = frozenset()
    """How its numbers are distributed, as far as that is clear."""
    zero_row: int | None = None
    """The only row that is all zero, -1 for none or several; `None` where that was not looked at."""


class Beginnings:
    """The parameters of modules and optimizers of one process at their first look, each tensor once."""

    def __init__(self, process: Process) -> None:
        self.process = process

    @staticmethod
    def of(process: Process) -> Beginnings:
        return process.memo(Beginnings, lambda: Beginnings(process))

    @cached_property
    def first(self) -> Mapping[int, First]:
        """By variable id, in the order of the looks; those alone whose numbers were measured."""
        process = self.process
        events, variables = process.events, Variables.of(process)
        numbers = {}
        shaped = ("parameter.farthest", "parameter.orthogonal", "parameter.zero row", "parameter.equal")
        for name in ("parameter.rms", "parameter.mean", *shaped):
            rows = process.measures(name)
            numbers[name] = dict(zip(events["args"][rows].tolist(), events["value"][rows].tolist(), strict=True))
        ids = variables.ids("parameter")
        seen = variables.first_seen(ids)
        ids, seen = ids[(anew := self._anew(ids, seen))], seen[anew]
        found = {}
        for variable, seq in sorted(zip(ids.tolist(), seen.tolist(), strict=True), key=lambda pair: pair[1]):
            rms, mean = (numbers[name].get(variable) for name in ("parameter.rms", "parameter.mean"))
            if rms is None or mean is None or seq == np.iinfo(np.int64).max:
                continue
            row = int(process.row_at(np.array([seq]))[0])
            state, digest = int(events["new"][row]), int(events["digest"][row])
            elements = int(np.prod(variables.symbols[variable].get("shape") or [1]))
            spread = max(0.0, 1 - (mean / rms) ** 2) if rms and state == fmt.NONZERO else 0.0
            farthest, orthogonal, zero_row, equal = (numbers[name].get(variable) for name in shaped)
            shape = _shape(farthest, orthogonal) if spread > VARIED else frozenset()
            empty = None if zero_row is None else int(zero_row)
            zero = state == fmt.ZERO
            found[variable] = First(variable, row, seq, digest, elements, spread, zero, bool(equal), shape, empty)
        return found

    def _anew(self, ids: Ints, seen: Ints) -> Bools:
        """Which parameters are of models that take nobody's place: one of a process that goes on with another has
        begun there.
        """
        process = self.process
        first = process.era(seen) == 0
        names = np.array(process.names.variables, dtype=object)[ids]
        return np.asarray(first | ~np.isin(names.astype(str), names[first].astype(str)))

    def equal(self, one: First, other: First) -> bool:
        """Whether two parameters had the same content when the later of them was first looked at."""
        earlier, later = sorted((one, other), key=lambda item: item.seq)
        variables = Variables.of(self.process)
        row = int(variables.last(np.array([earlier.variable]), np.array([later.seq]))[0])
        return row >= 0 and int(self.process.events["digest"][row]) == later.digest

    def twins(self) -> Iterator[tuple[First, First]]:
        """Parameters of enough elements that differ, each with the first other one that had the same content."""
        events, variables = self.process.events, Variables.of(self.process)
        parameters = variables.kind.isin(["parameter"])
        rows = variables.rows
        rows = rows[parameters[events["subject"][rows]]]
        varied = [item for item in self.first.values() if item.spread > VARIED and item.elements >= ENOUGH]
        rows = rows[among(events["digest"][rows], np.array([item.digest for item in varied], dtype=np.uint64))]
        had: dict[int, list[int]] = {}
        for digest, variable in zip(events["digest"][rows].tolist(), events["subject"][rows].tolist(), strict=True):
            had.setdefault(digest, []).append(variable)
        for item in varied:
            others = (self.first[number] for number in had[item.digest] if number in self.first)
            for other in others:
                if other.variable != item.variable and other.seq < item.seq and self.equal(other, item):
                    yield item, other
                    break

    @cached_property
    def names(self) -> Mapping[str, First]:
        """Those in modules, by name."""
        names = self.process.names.variables
        return {names[number]: item for number, item in self.first.items() if Variables.of(self.process).root[number]}

    def below(self, prefix: str) -> Mapping[str, First]:
        """Those of a module, or the one of this name, by what follows the prefix."""
        inside = f"{prefix}."
        return {
            name.removeprefix(prefix): item
            for name, item in self.names.items()
            if name == prefix or name.startswith(inside)
        }

    # what calls were given and returned

    @cached_property
    def sketched(self) -> Mapping[int, tuple[int, Content]]:
        """Time and content of the first sketch of every parameter, by variable id."""
        sketches = read_sketches(self.process.raw)
        found: dict[int, tuple[int, Content]] = {}
        for row in sketches[sketches["var"] > 0]:
            found.setdefault(int(row["var"]), (int(row["at"]), _content(row)))
        return found

    @cached_property
    def shown(self) -> Mapping[Content, tuple[tuple[int, str, str], ...]]:
        """What models were given and returned, by content: time, name of the model, and slot."""
        process = self.process
        sketches = read_sketches(process.raw)
        slots = [str(symbol.get("name", "")) for symbol in process.raw.symbols["slot"]]
        calls = process.row_at(sketches["call"])
        models = frozenset(process.entry_rows.tolist())
        found: dict[Content, list[tuple[int, str, str]]] = {}
        for row, call in zip(sketches, calls.tolist(), strict=True):
            slot = slots[int(row["slot"])]
            if call in models and slot.partition(".")[0] in ("in", "out") and int(row["size"]) >= ENOUGH:
                found.setdefault(_content(row), []).append((int(row["at"]), process.module_name(call), slot))
        return {content: tuple(places) for content, places in found.items()}

    def given(self, variable: int) -> tuple[tuple[str, str], ...]:
        """Models and slots in which the content of a parameter was seen before it was first looked at itself."""
        at, content = self.sketched.get(variable, (0, None))
        if content is None:
            return ()
        return tuple(dict.fromkeys((model, slot) for time, model, slot in self.shown.get(content, ()) if time < at))


def _shape(farthest: float | None, orthogonal: float | None) -> frozenset[Shape]:
    found: set[Shape] = set()
    if orthogonal is not None:
        found.add("orthogonal" if orthogonal else "not orthogonal")
    if farthest is not None and not orthogonal:
        if farthest <= EVEN:
            found.add("even")
        elif farthest >= TAILS:
            found.add("with tails")
    return frozenset(found)


def _content(row: np.void) -> Content:
    first, second, third, fourth = row["projections"].tolist()
    return int(row["size"]), float(row["norm"]), float(row["mean"]), first, second, third, fourth


def prefixes(one: str, other: str) -> tuple[str, str]:
    """What two names do not have in common: `Net.key.conv.weight` and `Net.query.conv.weight` give `Net.key` and
    `Net.query`.
    """
    mine, theirs = one.split("."), other.split(".")
    while len(mine) > 1 and len(theirs) > 1 and mine[-1] == theirs[-1]:
        mine.pop()
        theirs.pop()
    return ".".join(mine), ".".join(theirs)


def parameter_rows(items: list[First]) -> tuple[Ints, Ints]:
    """Rows and variables of first looks, as columns."""
    return (
        np.array([item.row for item in items], dtype=np.int64),
        np.array([item.variable for item in items], dtype=np.int64),
    )
