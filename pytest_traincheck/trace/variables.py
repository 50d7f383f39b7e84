"""Tracked variables of one process: their states over time, and which optimizer holds them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.process import OptimizerStep, Process


@dataclass(frozen=True)
class Membership:
    """The parameters an optimizer holds at one time: variable ids, the group index of each, and each group's hyper-
    parameters.
    """

    variables: Ints
    groups: Ints
    hyper: Mapping[int, Mapping[str, Any]]


@dataclass(eq=False)
class Variables:
    """The `change` events of a process, sorted by variable and time, with lookups by (variable, time)."""

    process: Process

    @staticmethod
    def of(process: Process) -> Variables:
        found: Variables = process.of_events.setdefault(Variables, None) or Variables(process)
        process.of_events[Variables] = found
        return found

    @cached_property
    def symbols(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(self.process.raw.symbols["var"])

    @cached_property
    def kind(self) -> Labels:
        return Labels.of(np.arange(len(self.symbols)), [symbol.get("kind", "") for symbol in self.symbols])

    @cached_property
    def root(self) -> Ints:
        return np.array([symbol.get("root", 0) for symbol in self.symbols], dtype=np.int64)

    @cached_property
    def first_name(self) -> Ints:
        """The variable that first named the same tensor: itself unless it is a tied name."""
        return np.array([symbol.get("same", 0) or number for number, symbol in enumerate(self.symbols)], dtype=np.int64)

    @cached_property
    def _companions(self) -> Mapping[tuple[str, int, str, bool], int]:
        return {
            (symbol.get("kind", ""), *_place(symbol)): number for number, symbol in enumerate(self.symbols) if number
        }

    def companion(self, kind: str) -> Ints:
        """For each variable the id of the variable of `kind` with the same root and name; 0 where there is none.

        A name that was tied on the way has two of each kind, one for itself and one for what it is tied to.
        """
        table = self._companions
        return self.process.memo(
            ("companion", kind),
            lambda: np.array(
                [0] + [table.get((kind, *_place(symbol)), 0) for symbol in self.symbols[1:]], dtype=np.int64
            ),
        )

    def ids(self, kind: str, *, tied: bool = False) -> Ints:
        """Variables of a kind, each tensor once unless `tied`."""
        mask = self.kind.isin([kind])
        if not tied:
            mask &= self.first_name == np.arange(len(self.symbols))
        mask[0] = False
        return np.flatnonzero(mask)

    @cached_property
    def placed(self) -> Mapping[int, str]:
        """How the parameters are placed of which this rank holds a part, by id."""
        process, found = self.process, {}
        for symbol in process.raw.symbols["measure"]:
            name = str(symbol.get("name", ""))
            if name.startswith(fmt.PLACED):
                numbers = process.events["args"][process.measures(name)].tolist()
                found.update(dict.fromkeys(numbers, name.removeprefix(fmt.PLACED)))
        return found

    @cached_property
    def rows(self) -> Ints:
        """Rows of change events, sorted by variable and then time."""
        rows = np.flatnonzero(self.process.events["kind"] == fmt.CHANGE)
        events = self.process.events
        return rows[np.lexsort((events["seq"][rows], events["subject"][rows]))]

    @cached_property
    def _key(self) -> Ints:
        events = self.process.events
        return (events["subject"][self.rows].astype(np.int64) << 32) + events["seq"][self.rows].astype(np.int64)

    def last(self, variable: Ints, seq: Ints) -> Ints:
        """Row of the last change of each variable at or before a time; -1 if it was not seen by then."""
        position = np.searchsorted(self._key, (variable << 32) + seq, side="right") - 1
        safe = np.maximum(position, 0)
        if not len(self.rows):
            return np.full(np.shape(variable), -1)
        rows = self.rows[safe]
        same = (position >= 0) & (self.process.events["subject"][rows] == variable)
        return np.where(same, rows, -1)

    def state(self, variable: Ints, seq: Ints) -> Ints:
        """State code of each variable at a time; `ABSENT` for a variable not seen by then."""
        rows = self.last(variable, seq)
        return np.where(rows >= 0, self.process.events["new"][rows], fmt.ABSENT).astype(np.int64)

    def first_seen(self, variable: Ints) -> Ints:
        """Time at which each variable was first seen; the largest integer if it never was."""
        position = np.searchsorted(self._key, variable << 32)
        never = np.iinfo(np.int64).max
        if not len(self.rows):
            return np.full(np.shape(variable), never)
        rows = self.rows[np.minimum(position, len(self.rows) - 1)]
        events = self.process.events
        known = (position < len(self.rows)) & (events["subject"][rows] == variable)
        return np.where(known, events["seq"][rows].astype(np.int64), never)

    def changed(self, variable: Ints, after: Ints, until: Ints) -> Bools:
        """Whether each variable took a new state in the interval (after, until]; a first sight is not a change."""
        low = np.searchsorted(self._real_key, (variable << 32) + after, side="right")
        high = np.searchsorted(self._real_key, (variable << 32) + until, side="right")
        return np.asarray(high > low)

    @cached_property
    def _real_key(self) -> Ints:
        old = self.process.events["old"][self.rows]
        real: Ints = self._key[old != fmt.UNSEEN]
        return real

    def membership(self, optimizer: int, seq: int) -> Membership:
        """What an optimizer held at a time: the last recorded shape of each of its groups."""
        # Before its first record an optimizer held what that record says.
        number = max(1, bisect_right(self._records.get(optimizer, ()), seq))
        return self.process.memo(("membership", optimizer, number), lambda: self._membership(optimizer, number))

    def _membership(self, optimizer: int, number: int) -> Membership:
        """What an optimizer held after that many times at which something was recorded of it."""
        times = self._records.get(optimizer, ())
        at = times[number - 1] if times else 0
        shapes = self._shapes.get(optimizer, {}).items()
        latest = {index: records[place - 1] for index, (seqs, records) in shapes if (place := bisect_right(seqs, at))}
        variables: list[int] = []
        groups: list[int] = []
        for index in sorted(latest):
            params = latest[index].get("params", ())
            variables.extend(params)
            groups.extend([index] * len(params))
        # A schedule of other hyper-parameters than `lr` leaves a record in every step, in which nothing else is new.
        held = self.process.memo(
            ("held", tuple(variables), tuple(groups)),
            lambda: (np.array(variables, dtype=np.int64), np.array(groups, dtype=np.int64)),
        )
        return Membership(*held, {index: group.get("hyper", {}) for index, group in latest.items()})

    def records(self, optimizer: int) -> Sequence[int]:
        """The times at which something was recorded of an optimizer's groups, in order."""
        return self._records.get(optimizer, ())

    def recorded(self, optimizer: int) -> int:
        """The first of them; 0 where nothing was recorded."""
        return min(self.records(optimizer), default=0)

    @cached_property
    def _records(self) -> Mapping[int, list[int]]:
        """The times at which something was recorded of each optimizer's groups."""
        return {
            optimizer: sorted({int(group.get("seq", 0)) for group in groups})
            for optimizer, groups in self._groups.items()
        }

    @cached_property
    def _shapes(self) -> Mapping[int, Mapping[int, tuple[list[int], list[Mapping[str, Any]]]]]:
        """By optimizer and index of a group the times at which it was recorded, in order, and what was."""
        found: dict[int, dict[int, tuple[list[int], list[Mapping[str, Any]]]]] = {}
        for optimizer, groups in self._groups.items():
            for group in sorted(groups, key=lambda group: int(group.get("seq", 0))):
                seqs, shapes = found.setdefault(optimizer, {}).setdefault(group.get("index", 0), ([], []))
                seqs.append(int(group.get("seq", 0)))
                shapes.append(group)
        return found

    def constructed(self, optimizer: int) -> Mapping[int, Mapping[str, Any]]:
        """Hyper-parameters of each group as the optimizer was made with them, before any scheduler touched them."""
        first: dict[int, Mapping[str, Any]] = {}
        for group in self._groups.get(optimizer, ()):
            first.setdefault(group.get("index", 0), group.get("hyper", {}))
        return first

    @cached_property
    def _groups(self) -> Mapping[int, list[Mapping[str, Any]]]:
        groups: dict[int, list[Mapping[str, Any]]] = {}
        for group in self.process.raw.symbols["group"][1:]:
            groups.setdefault(group.get("opt", 0), []).append(group)
        return groups

    @cached_property
    def step_table(self) -> StepTable:
        """One line for every parameter that an optimizer holds at each of its steps."""
        by_members: dict[tuple[int, int], tuple[Membership, list[int]]] = {}
        for number, step in enumerate(self.process.steps):
            members = self.membership(step.optimizer, step.begin)
            held = id(members.variables), id(members.groups)
            by_members.setdefault(held, (members, []))[1].append(number)
        steps, variables, groups = [], [], []
        for members, numbers in by_members.values():
            steps.append(np.repeat(np.array(numbers, dtype=np.int64), len(members.variables)))
            variables.append(np.tile(members.variables, len(numbers)))
            groups.append(np.tile(members.groups, len(numbers)))
        return StepTable(
            self.process.steps,
            np.concatenate(steps) if steps else np.empty(0, dtype=np.int64),
            np.concatenate(variables) if variables else np.empty(0, dtype=np.int64),
            np.concatenate(groups) if groups else np.empty(0, dtype=np.int64),
        )

    @cached_property
    def held(self) -> Bools:
        """Variables that some optimizer holds at some time, under any of their names."""
        mask = np.zeros(len(self.symbols), dtype=bool)
        for group in self.process.raw.symbols["group"][1:]:
            numbers = [number for number in group.get("params", ()) if number < len(mask)]
            mask[self.first_name[numbers]] = True
        return mask[self.first_name]


def _place(symbol: Mapping[str, Any]) -> tuple[int, str, bool]:
    """Root, name, and whether the name stands for what another one named first."""
    return symbol.get("root", 0), symbol.get("name", ""), bool(symbol.get("same", 0))


@dataclass(frozen=True)
class StepTable:
    """Parallel columns: position in `steps`, variable id, group index."""

    steps: tuple[OptimizerStep, ...]
    step: Ints
    variable: Ints
    group: Ints
    _columns: dict[str, Ints] = field(default_factory=dict, repr=False)

    def column(self, name: str) -> Ints:
        """A field of the step for every line: `row`, `begin`, `end`, `previous_end`, `number`, `optimizer`."""
        if name not in self._columns:
            values = np.array([getattr(step, name) for step in self.steps], dtype=np.int64)
            self._columns[name] = values[self.step] if len(values) else np.empty(0, dtype=np.int64)
        return self._columns[name]
