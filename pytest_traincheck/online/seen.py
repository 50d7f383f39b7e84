"""One process of a run that grows: what it is, and its rows until it is known to train."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pytest_traincheck.online.launch_group import ROWS
from pytest_traincheck.online.rank import Rank
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.begun_with import first_step
from pytest_traincheck.trace.columns import Rows
from pytest_traincheck.trace.growing import GrowingProcess
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.stretch import joined

_TRAINING = frozenset({"optimizer", "autograd"})
_NONE: Rows = np.empty(0, dtype=fmt.EVENT)


class Seen:
    """Reads on in the trace of a process."""

    def __init__(self, source: GrowingProcess) -> None:
        self.source = source
        self.rank: Rank | None = None
        self.more = False
        self.trains = False
        self.is_worker = False
        self._rows: list[Rows] = []
        self._forgotten = False
        self._begun = False
        self._made: tuple[int, Process] | None = None

    @property
    def started(self) -> float:
        return float(self.source.meta.get("started") or 0.0)

    @property
    def number(self) -> int:
        """The rank."""
        return int(self.source.meta.get("rank") or 0)

    @property
    def world_size(self) -> int:
        return int(self.source.meta.get("world_size") or 1)

    def read(self, piece: int) -> None:
        """Read on."""
        self.more = False
        if self.source.done:
            return
        rows = self.source.next_rows(piece)
        self.more = len(rows) >= piece
        if not len(rows) or self._forgotten:
            return
        if self.rank is not None:
            self.rank.add(self.rank.moved(rows))
            return
        self._rows.append(rows)
        self._classify(rows)
        if not self.trains and not self.is_worker and sum(map(len, self._rows)) > ROWS:
            # It neither trains nor loads data: what it does is nobody's business here.
            self._rows = self._rows[-1:]

    @property
    def begun(self) -> bool:
        """Whether its first step was read, by which it is known what it goes on with, as long as that is not known."""
        if not self._begun:
            self._begun = first_step(self.source.tables, self.rows()) is not None
        return self._begun

    @property
    def full(self) -> bool:
        """Whether as much was read as it takes to know what it belongs to."""
        return self.rank is None and self.trains and (self.begun or sum(map(len, self._rows)) > ROWS)

    def begin(self, make: Callable[[GrowingProcess], Rank] = Rank) -> Rank:
        """The rank that it turns out to be."""
        self.rank = make(self.source)
        for rows in self._rows:
            self.rank.add(self.rank.moved(rows))
        self._rows = []
        return self.rank

    def rows(self) -> Rows:
        """All that was read of it until it is known what it belongs to, in order of time."""
        return joined([_NONE, *self._rows])

    def process(self) -> Process:
        """All of a worker, made anew when more of it was read."""
        if self._made is None or self._made[0] != self.source.read:
            self._made = self.source.read, Process(self.source.raw(joined([_NONE, *self._rows])))
        return self._made[1]

    def forget(self) -> None:
        """Let go of what was read, and of what will be."""
        self._rows, self._forgotten = [], True

    def _classify(self, rows: Rows) -> None:
        tables = self.source.tables
        calls = np.unique(rows["subject"][rows["kind"] == fmt.CALL]).tolist()
        self.trains = self.trains or any(tables["api"][number].get("type") in _TRAINING for number in calls)
        measures = np.unique(rows["subject"][rows["kind"] == fmt.MEASURE]).tolist()
        self.is_worker = self.is_worker or any(tables["measure"][number].get("name") == "worker" for number in measures)
