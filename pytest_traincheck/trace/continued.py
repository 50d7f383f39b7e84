"""A training that another process goes on with: what the second writes, as if the first had written it.

The second process has symbols and times of its own. Its symbols come behind those of the first, and its events behind
everything that the first did, so that what it made anew are further models and optimizers of one process. Where the
second goes on from an earlier step than the last, as after a crash, what the first did behind that step is cut.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.columns import Columns, Rows
from pytest_traincheck.trace.growing import GrowingProcess
from pytest_traincheck.trace.reader import RawTrace
from pytest_traincheck.trace.schema import REFERENCES
from pytest_traincheck.trace.symbols import Symbol, Tables

TRACKED = 16
"""Parameters by which the step is found that a process goes on from."""
_AT_ONCE = 1 << 14
_TABLE_OF: Mapping[str, str] = {name: name for name in ("ctx", "ret", "src", "mod", "opt", "thread")}
"""Columns of events that point into a table, whatever the event is."""
_SUBJECTS: Mapping[int, str] = {fmt.CALL: "api", fmt.CHANGE: "var", fmt.MEASURE: "measure"}
_ARGUMENTS: Mapping[int, str] = {fmt.CALL: "args", fmt.MEASURE: "var"}

Key = tuple[str, str, tuple[int, ...]]
"""Class of the model, name and shape of a parameter."""
State = tuple[int, int]


class Source(Protocol):
    """What the rows of a process are read from."""

    @property
    def path(self) -> Path: ...
    @property
    def meta(self) -> Mapping[str, Any]: ...
    @property
    def tables(self) -> Tables: ...
    @property
    def done(self) -> bool: ...
    @property
    def read(self) -> int: ...
    def next_rows(self, limit: int) -> Rows: ...
    def raw(self, events: Rows) -> RawTrace: ...
    def again(self) -> Iterator[Rows]:
        """All rows that were read, piece by piece, once more."""
        ...


class Continued:
    """Two processes as one. The first writes nothing any more."""

    def __init__(self, first: Source, second: GrowingProcess, cut: int) -> None:
        """`cut`: time of the last event of the first that counts."""
        self._first, self._second = first, second
        self._cut = cut
        self.shift = max((int(max(rows["end"].max(), rows["seq"].max())) for rows in first.again()), default=0)
        self._offsets = {kind: len(table) - 1 for kind, table in first.tables.items()}
        self._tables: tuple[Tables, Tables] | None = None

    @property
    def path(self) -> Path:
        return self._first.path

    @property
    def meta(self) -> Mapping[str, Any]:
        one, other = self._first.meta, self._second.meta
        sums = {name: int(one.get(name) or 0) + int(other.get(name) or 0) for name in _SUMS}
        errors = [*(one.get("probe_errors") or ()), *(other.get("probe_errors") or ())]
        return {
            **other, **sums, "probe_errors": errors, "finished": bool(one.get("finished") and other.get("finished")),
        }  # fmt: skip

    @property
    def done(self) -> bool:
        return self._second.done

    @property
    def read(self) -> int:
        return self._first.read + self._second.read

    @property
    def tables(self) -> Tables:
        if self._tables is None or self._tables[0] is not self._second.tables:
            self._tables = self._second.tables, self._joined()
        return self._tables[1]

    def next_rows(self, limit: int) -> Rows:
        return self.moved(self._second.next_rows(limit))

    def raw(self, events: Rows) -> RawTrace:
        return RawTrace(self.path, self.meta, self.tables, Columns.of(events), gaps=self.gaps)

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """Times behind the first and up to the second, between which nothing counts."""
        return (*(self._first.gaps if isinstance(self._first, Continued) else ()), (self._cut, self.shift))

    def again(self) -> Iterator[Rows]:
        for rows in self._first.again():
            kept = rows[rows["seq"] <= self._cut]
            if len(kept):
                yield kept
        for rows in self._second.again():
            yield self.moved(rows)

    def moved(self, rows: Rows) -> Rows:
        """Rows of the second process in the symbols and times of both."""
        found = rows.copy()
        for column in ("seq", "end", "parent"):
            found[column][found[column] > 0] += np.uint32(self.shift)
        for column, table in _TABLE_OF.items():
            self._offset(found, column, table, np.ones(len(found), dtype=bool))
        for column, tables in (("subject", _SUBJECTS), ("args", _ARGUMENTS)):
            for kind, table in tables.items():
                self._offset(found, column, table, found["kind"] == kind)
        return found

    def _offset(self, rows: Rows, column: str, table: str, mask: np.ndarray) -> None:
        mask = mask & (rows[column] > 0)
        rows[column][mask] += rows.dtype[column].type(self._offsets[table])

    def _joined(self) -> Tables:
        first, second = self._first.tables, self._second.tables
        return {kind: [*first[kind], *(self._symbol(kind, each) for each in second[kind][1:])] for kind in first}

    def _symbol(self, kind: str, symbol: Symbol) -> Symbol:
        changed: dict[str, Any] = {"i": symbol["i"] + self._offsets[kind]}
        for name, other in REFERENCES.get(kind, {}).items():
            value = symbol.get(name, 0)
            more = self._offsets[other]
            if isinstance(value, list):
                changed[name] = [each + more if each else 0 for each in value]
            elif value:
                changed[name] = value + more
        if kind in ("root", "opt") and symbol.get("ordinal", -1) >= 0:
            changed["ordinal"] = (
                symbol["ordinal"]
                + 1
                + max((int(each.get("ordinal", -1)) for each in self._first.tables[kind][1:]), default=-1)
            )
        if "seq" in symbol:
            changed["seq"] = symbol["seq"] + self.shift
        return {**symbol, **changed}


_SUMS = ("lost_events", "probe_error_count")


@dataclass(frozen=True)
class From:
    """Where a process goes on from in what another one did."""

    cut: int
    """Time of the last event that counts."""
    end: int
    """Time at which the last step ended that counts."""
    steps: int
    """Steps that were taken until then."""


def first_step(tables: Tables, rows: Iterable[Rows]) -> int | None:
    """When the first step of an optimizer begins; None where there is none yet."""
    steps = _types(tables) == "optimizer"
    begins: list[int] = []
    for part in rows:
        calls = part[part["kind"] == fmt.CALL]
        begins.extend(calls["seq"][steps[calls["subject"]]].tolist())
    return min(begins, default=None)


def went_on(
    first: Source, tables: Tables, rows: Rows, leads: Collection[int], *, with_state: bool = False
) -> From | None:
    """Where a process that has begun to train goes on from; None where it begins anew.

    Args:
        first: the process that may be before it; nothing is added to it any more.
        tables, rows: the symbols of the second and its events up to its first step at least.
        leads: optimizers of the first whose steps count the iterations.
        with_state: whether it takes a state that is loaded into an optimizer to go on with a training.
    """
    begin = first_step(tables, [rows])
    if begin is None or not _loads(tables, rows, begin, with_state):
        return None
    wanted = _values(tables, rows, begin)
    keys = sorted(wanted)
    keys = keys[:: max(1, -(-len(keys) // TRACKED))]
    variables = {number: key for number, key in _held(first.tables).items() if key in set(keys)}
    search = _Search({key: wanted[key] for key in keys}, variables, frozenset(leads))
    for part in first.again():
        search.take(part, first.tables)
    return search.found()


class _Search:
    """Goes through what a process did, and notes the step that left most of the parameters as they are wanted."""

    def __init__(self, wanted: Mapping[Key, State], variables: Mapping[int, Key], leads: frozenset[int]) -> None:
        self._wanted, self._variables, self._leads = wanted, variables, leads
        self._states: dict[Key, State] = {}
        self._moved: set[Key] = set()
        self._steps = 0
        self._best = 0
        self._steps_then = self._end = 0
        self._border: int | None = None
        self._open = False
        """Whether what comes may still belong to the step that was best."""

    def take(self, rows: Rows, tables: Tables) -> None:
        types, names = _types(tables), [str(each.get("name", "")) for each in tables["api"]]
        call = rows["kind"] == fmt.CALL
        kinds = types[rows["subject"] * call]
        work = np.isin(kinds, ("data", "autograd")) | ((kinds == "module") & ((rows["flags"] & fmt.ENTRY) != 0))
        saves = np.array(["save" in name for name in names], dtype=bool)[rows["subject"] * call] & (kinds == "io")
        steps = (kinds == "optimizer") & ((rows["flags"] & fmt.RAISED) == 0)
        changes = (rows["kind"] == fmt.CHANGE) & np.isin(rows["subject"], [*self._variables])
        chosen = rows[(call & (work | saves | steps)) | changes]
        what = kinds[(call & (work | saves | steps)) | changes]
        times = np.where((what == "optimizer") | (what == "io"), chosen["end"], chosen["seq"])
        for place in np.argsort(times, kind="stable").tolist():
            self._see(chosen[place], str(what[place]), int(times[place]))

    def _see(self, row: np.void, what: str, time: int) -> None:
        if not what:
            self._change(self._variables[int(row["subject"])], (int(row["new"]), int(row["digest"])), int(row["old"]))
        elif what == "optimizer":
            self._steps += int(row["opt"]) in self._leads
            # What no step has moved is alike at any time.
            alike = sum(self._states.get(key) == self._wanted[key] for key in self._moved)
            if alike and alike >= self._best:
                self._best, self._steps_then, self._end = alike, self._steps, time
                self._border, self._open = None, True
        elif self._open and what == "io":
            self._border = time
        elif self._open:
            self._border = time - 1 if self._border is None else self._border
            self._open = what != "autograd"

    def _change(self, key: Key, state: State, old: int) -> None:
        if old != fmt.UNSEEN:
            self._moved.add(key)
        self._states[key] = state

    def found(self) -> From | None:
        if not self._steps_then or 2 * self._best < len(self._moved):
            return None
        return From(_NEVER if self._border is None else self._border, self._end, self._steps_then)


_NEVER = int(np.iinfo(np.uint32).max)


def _types(tables: Tables) -> np.ndarray:
    return np.array([str(each.get("type", "")) for each in tables["api"]], dtype=object)


def _loads(tables: Tables, rows: Rows, until: int, with_state: bool) -> bool:
    """Whether something is loaded before a time; `with_state`: into an optimizer."""
    loads = np.array(
        ["load" in str(each.get("name", "")) and each.get("type") in ("io", "mode") for each in tables["api"]],
        dtype=bool,
    )
    calls = rows[(rows["kind"] == fmt.CALL) & (rows["seq"] < until)]
    return bool((loads[calls["subject"]] & ((calls["opt"] > 0) | (not with_state))).any())


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
    mine = rows[(rows["kind"] == fmt.CHANGE) & (rows["seq"] <= at) & np.isin(rows["subject"], [*held])]
    states = {int(row["subject"]): (int(row["new"]), int(row["digest"])) for row in np.sort(mine, order="seq")}
    keys = [held[number] for number in states]
    return {held[number]: state for number, state in states.items() if keys.count(held[number]) == 1}
