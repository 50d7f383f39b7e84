"""Two processes as one: what the second writes, as if the first had written it.

The second process has symbols and times of its own. Its symbols come behind those of the first, and its events behind
everything that the first did, so that what it makes anew are further models and optimizers of one process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.columns import Columns, Rows
from pytest_traincheck.trace.schema import REFERENCES
from pytest_traincheck.trace.symbols import Symbol, Tables

_TABLE_OF: Mapping[str, str] = {name: name for name in ("ctx", "ret", "src", "mod", "opt", "thread")}
"""Columns of events that point into a table, whatever the event is."""
_SUBJECTS: Mapping[int, str] = {fmt.CALL: "api", fmt.CHANGE: "var", fmt.MEASURE: "measure"}
_ARGUMENTS: Mapping[int, str] = {fmt.CALL: "args", fmt.MEASURE: "var"}
_TIMES = ("seq", "end", "parent")
_COUNTED = ("root", "opt")
"""Kinds of symbols that are numbered in the order in which things were made."""


@dataclass(frozen=True)
class Splice:
    """Where in a process the symbols and times of another one begin."""

    shift: int
    """Time of the last event of the first."""
    sizes: Mapping[str, int]
    """Symbols of the first, by kind."""
    ordinals: Mapping[str, int]

    @staticmethod
    def behind(tables: Tables, last: int) -> Splice:
        """Behind a process with these symbols, whose last event has the number `last`."""
        ordinals = {
            kind: 1 + max((int(each.get("ordinal", -1)) for each in tables[kind][1:]), default=-1) for kind in _COUNTED
        }
        return Splice(last, {kind: len(table) - 1 for kind, table in tables.items()}, ordinals)

    def events(self, rows: Rows) -> Rows:
        """Events of the second process in the symbols and times of both."""
        found = rows.copy()
        for column in _TIMES:
            found[column][found[column] > 0] += np.uint32(self.shift)
        everything = np.ones(len(found), dtype=bool)
        for column, table in _TABLE_OF.items():
            self._offset(found, column, table, everything)
        for column, tables in (("subject", _SUBJECTS), ("args", _ARGUMENTS)):
            for kind, table in tables.items():
                self._offset(found, column, table, found["kind"] == kind)
        return found

    def sketches(self, rows: Rows) -> Rows:
        """The same of rows of `sketches.bin`."""
        found = rows.copy()
        for column in ("at", "call"):
            found[column][found[column] > 0] += np.uint32(self.shift)
        for column in ("slot", "var"):
            self._offset(found, column, column, np.ones(len(found), dtype=bool))
        return found

    def tables(self, first: Tables, second: Tables) -> Tables:
        """The symbols of both."""
        return {kind: [*first[kind], *(self._symbol(kind, each) for each in second[kind][1:])] for kind in first}

    def _offset(self, rows: Rows, column: str, table: str, mask: np.ndarray) -> None:
        mask = mask & (rows[column] > 0)
        rows[column][mask] += rows.dtype[column].type(self.sizes[table])

    def _symbol(self, kind: str, symbol: Symbol) -> Symbol:
        changed: dict[str, Any] = {"i": symbol["i"] + self.sizes[kind]}
        for name, other in REFERENCES.get(kind, {}).items():
            value, more = symbol.get(name, 0), self.sizes[other]
            if isinstance(value, list):
                changed[name] = [each + more if each else 0 for each in value]
            elif value:
                changed[name] = value + more
        if kind in _COUNTED and symbol.get("ordinal", -1) >= 0:
            changed["ordinal"] = symbol["ordinal"] + self.ordinals[kind]
        if "seq" in symbol:
            changed["seq"] = symbol["seq"] + self.shift
        return {**symbol, **changed}


@dataclass(frozen=True)
class Source:
    """A process directory whose sketches belong to a trace, and where in it they begin; None: at its beginning."""

    path: Path
    splice: Splice | None = None


def joined_meta(one: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    """The description of two processes as one."""
    sums = {name: int(one.get(name) or 0) + int(other.get(name) or 0) for name in _SUMS}
    left_out = dict(one.get("left_out") or {})
    for what, count in (other.get("left_out") or {}).items():
        left_out[what] = left_out.get(what, 0) + int(count)
    return {
        **other,
        **sums,
        "started": one.get("started", 0.0),
        "probe_errors": [*(one.get("probe_errors") or ()), *(other.get("probe_errors") or ())],
        "finished": bool(one.get("finished") and other.get("finished")),
        "left_out": left_out,
    }


_SUMS = ("events", "lost_events", "probe_error_count")


def end_of(rows: Rows | Columns) -> int:
    """The last time that is spoken of in rows; 0 for none."""
    return int(max(rows["end"].max(), rows["seq"].max())) if len(rows) else 0
