"""Finds out which state of an earlier training a process goes on with, and makes the two of them one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pytest_traincheck.online.ending import Left, Saved
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.columns import Columns, Rows
from pytest_traincheck.trace.continued import Source, Splice, joined_meta
from pytest_traincheck.trace.growing import GrowingProcess
from pytest_traincheck.trace.reader import RawTrace
from pytest_traincheck.trace.symbols import Tables

Key = tuple[str, str, tuple[int, ...]]
"""Class of the model, name and shape of a parameter."""
State = tuple[int, int]


class Continued:
    """A process that goes on with what another one has left, read as if both were one. As `GrowingProcess`."""

    def __init__(self, left: Left, second: GrowingProcess) -> None:
        self._left, self._second = left, second
        self._splice = Splice.behind(left.tables, left.last)
        self._tables: tuple[Tables, Tables] | None = None

    @property
    def path(self) -> Path:
        return self._second.path

    @property
    def meta(self) -> Mapping[str, Any]:
        # Whether the first one has ended well is its own affair.
        return {**joined_meta(self._left.meta, self._second.meta), "finished": self._second.meta.get("finished")}

    @property
    def done(self) -> bool:
        return self._second.done

    @property
    def read(self) -> int:
        return self._second.read

    @property
    def tables(self) -> Tables:
        if self._tables is None or self._tables[0] is not self._second.tables:
            self._tables = self._second.tables, self._splice.tables(self._left.tables, self._second.tables)
        return self._tables[1]

    @property
    def joins(self) -> tuple[int, ...]:
        return (*self._left.joins, self._splice.shift)

    def next_rows(self, limit: int) -> Rows:
        return self.moved(self._second.next_rows(limit))

    def moved(self, rows: Rows) -> Rows:
        """Rows of the second process in the symbols and times of both."""
        return self._splice.events(rows)

    def raw(self, events: Rows) -> RawTrace:
        source = Source(self.path, self._splice)
        return RawTrace(self.path, self.meta, self.tables, Columns.of(events), joins=self.joins, sources=(source,))


def first_step(tables: Tables, rows: Rows) -> int | None:
    """When the first step of an optimizer begins; None where there is none yet."""
    steps = np.array([each.get("type") == "optimizer" for each in tables["api"]], dtype=bool)
    calls = rows[rows["kind"] == fmt.CALL]
    begins = calls["seq"][steps[calls["subject"]]]
    return int(begins.min()) if len(begins) else None


def likest(left: Left, tables: Tables, rows: Rows) -> tuple[Saved | None, float]:
    """The state that a process which has begun to train goes on with, and the part of what training had changed that is
    as it was then; nothing where the process has the beginnings of another model.

    Where several are as like the latest is meant.
    """
    begin = first_step(tables, rows)
    if begin is None or not left.saved:
        return None, 0.0
    wanted = _values(tables, rows, begin)
    numbers = {key: number for number, key in _held(left.tables).items() if key in wanted}
    first = _states(left.head[::-1], numbers.values())
    best, most = None, 0.0
    for saved in left.saved:
        states = _states(saved.states, numbers.values()) | _states(saved.tail, numbers.values())
        # What no step has moved is alike at any time.
        moved = [key for key, number in numbers.items() if number in states and states[number] != first.get(number)]
        alike = sum(states[numbers[key]] == wanted[key] for key in moved)
        if moved and alike and alike / len(moved) >= most:
            best, most = saved, alike / len(moved)
    return best, most


def restores_optimizer(tables: Tables, rows: Rows) -> bool:
    """Whether an optimizer is given the state of another one before its first step."""
    loads = np.array([str(each.get("name", "")).endswith("load_state_dict") for each in tables["api"]], dtype=bool)
    calls = rows[(rows["kind"] == fmt.CALL) & (rows["opt"] > 0)]
    return bool(loads[calls["subject"]].any())


def _held(tables: Tables) -> dict[int, Key]:
    """Parameters that optimizers hold and models have, by what tells them from all others of their kind."""
    held = {number for group in tables["group"][1:] for number in group.get("params", ())}
    found: dict[int, Key] = {}
    for number in sorted(held):
        symbol = tables["var"][number]
        if symbol.get("root", 0) and not symbol.get("same", 0):
            root = tables["root"][symbol["root"]]
            shape = tuple(symbol.get("shape") or ())
            found[number] = (str(root.get("class", "")), str(symbol.get("name", "")), shape)
    return found


def _values(tables: Tables, rows: Rows, at: int) -> dict[Key, State]:
    """What the parameters that optimizers hold are at a time; those that are called alike are left out."""
    held = _held(tables)
    states = _states(rows[rows["seq"] <= at], held)
    keys = [held[number] for number in states]
    return {held[number]: state for number, state in states.items() if keys.count(held[number]) == 1}


def _states(rows: Rows, numbers: Collection[int] | Iterable[int]) -> dict[int, State]:
    """The last state of some variables, in the order of the rows."""
    mine = rows[(rows["kind"] == fmt.CHANGE) & np.isin(rows["subject"], [*numbers])]
    return {int(row["subject"]): (int(row["new"]), int(row["digest"])) for row in mine}
