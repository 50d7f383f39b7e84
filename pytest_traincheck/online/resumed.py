"""Finds out which state of an earlier training a process goes on with, and makes the two of them one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_traincheck.online.ending import Left, Saved
from pytest_traincheck.trace.begun_with import begun_with, contents, first_step, held, part_alike, written
from pytest_traincheck.trace.columns import Columns, Rows
from pytest_traincheck.trace.continued import Source, Splice, joined_meta
from pytest_traincheck.trace.growing import GrowingProcess
from pytest_traincheck.trace.marks import are_marks
from pytest_traincheck.trace.reader import RawTrace
from pytest_traincheck.trace.symbols import Tables


class Continued:
    """A process that goes on with what another one has left, read as if both were one. As `GrowingProcess`."""

    def __init__(self, left: Left, second: GrowingProcess, steps: int) -> None:
        """`steps`: so many the training had made."""
        self._left, self._second, self._steps = left, second, steps
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
        """Rows of the second process in the symbols and times of both, with steps counted from the first one on."""
        found = self._splice.events(rows)
        found["value"][are_marks(self._second.tables, rows)] += self._steps
        return found

    def raw(self, events: Rows) -> RawTrace:
        source = Source(self.path, self._splice)
        return RawTrace(self.path, self.meta, self.tables, Columns.of(events), joins=self.joins, sources=(source,))


def likest(left: Left, tables: Tables, rows: Rows) -> tuple[Saved | None, float]:
    """The state that a process which has begun to train goes on with, and the part of what training had changed that is
    as it was then; nothing where the process has the beginnings of another model.

    Where several are as like the latest is meant.
    """
    begin = first_step(tables, rows)
    if begin is None or not left.saved:
        return None, 0.0
    wanted = begun_with(tables, rows, begin)
    numbers = {key: number for number, key in held(left.tables).items() if key in wanted}
    first = contents(left.head[::-1], numbers.values())
    best, most = None, 0.0
    for saved in left.saved:
        then = contents(saved.states, numbers.values()) | contents(saved.tail, numbers.values())
        alike = part_alike(numbers, first, then, written(left.tables, saved.tail, numbers.values()), wanted)
        if alike and alike >= most:
            best, most = saved, alike
    return best, most
