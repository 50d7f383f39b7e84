"""One process of a launch, in as much memory as its beginning and the steps take that are being judged."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np

from pytest_traincheck.online.ending import Left, Saved, noted, tail_of
from pytest_traincheck.online.let_go import LEAST, let_go
from pytest_traincheck.online.resumed import Continued
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.begun_with import saves
from pytest_traincheck.trace.columns import Rows, picked
from pytest_traincheck.trace.continued import end_of
from pytest_traincheck.trace.growing import GrowingProcess
from pytest_traincheck.trace.marks import are_marks
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.stretch import Loaded, Stretch, first_sights, joined, last_states, without

SAVES_AT_ONCE = 4
"""Of what is saved between two looks, so many of the last are remembered."""

_BEGINS = frozenset({"data", "zero_grad", "module", "autograd", "optimizer"})
"""Types of calls with which the next step begins."""

_NOTHING: Rows = np.empty(0, dtype=fmt.EVENT)


@dataclass
class Rank:
    """One process of a launch: how it began, what is known of the steps that are gone, and the rows since."""

    source: GrowingProcess | Continued
    head: Rows = field(default_factory=lambda: _NOTHING)
    states: Rows = field(default_factory=lambda: _NOTHING)
    """The last change of each variable before the rows."""
    rows: Rows = field(default_factory=lambda: _NOTHING)
    first_gone: int = -1
    """Rows of the file that hold the head; -1 as long as it is not complete."""
    gone: int = 0
    """Row up to which the file was given back to the disk."""
    begin: int = 0
    """`seq` of the last event of the steps that are gone, or of the head."""
    steps: int = 0
    """So many steps the whole training had made by then."""
    saved: tuple[Saved, ...] = ()
    """What it was when it saved."""
    looked: int = 0
    """`seq` up to which it is known what was saved."""
    loaded: Loaded = field(default_factory=Loaded)
    """The batches of training in the steps that are gone."""
    kept: int = 0
    """Its steps in the head. Ranks may have taken different numbers of them by then."""
    left_out: int = 0
    """Its steps between the head and the rows."""
    loaded_until: int | None = None
    """Where it goes on with a training that nobody observed: `seq` up to which it only says with what."""

    @staticmethod
    def going_on(left: Left, saved: Saved, second: GrowingProcess) -> Rank:
        """A process that goes on with what another one has left."""
        then = left.at(saved)
        source = Continued(then, second, saved.steps)
        earlier = tuple(each for each in left.saved if each.seq <= saved.seq)
        return Rank(source, then.head, saved.states, saved.tail, 0, 0, saved.begin, saved.steps, earlier, left.last)

    @property
    def number(self) -> int:
        return int(self.source.meta.get("rank") or 0)

    def note_saves(self, ends: np.ndarray, numbers: np.ndarray) -> None:
        """Remember what every variable was when something was saved; `ends` and `numbers` are those of all steps that
        are there.
        """
        new = saves(self.source.tables, picked(self.rows, self.rows["seq"] > self.looked))
        for call in new[-SAVES_AT_ONCE:]:
            self.saved = noted(self.saved, self._at(int(max(call["seq"], call["end"])), ends, numbers))
        if len(new):
            self.looked = int(new["seq"][-1])

    def note_beside(self, saved: AbstractSet[int], ends: np.ndarray, numbers: np.ndarray) -> None:
        """Remember what every variable was behind the steps after which another rank has saved for all of them."""
        wanted = saved - {each.steps for each in self.saved}
        for place in np.flatnonzero(np.isin(numbers + 1, list(wanted))).tolist():
            if int(ends[place]) >= self.begin:
                self.saved = noted(self.saved, self._at(self._rest_of(int(ends[place])), ends, numbers))

    def _rest_of(self, end: int) -> int:
        """When that ends which still belongs to a step behind its end, as the step of a schedule."""
        types = self.source.tables["api"]
        begins = np.array([each.get("type") in _BEGINS for each in types], dtype=bool)
        since = picked(self.rows, (self.rows["kind"] == fmt.CALL) & (self.rows["seq"] > end))
        following = since["seq"][begins[since["subject"]]]
        return int(following.min()) - 1 if len(following) else max(end, end_of(self.rows))

    def left(self, ends: np.ndarray, numbers: np.ndarray, head_steps: int) -> Left:
        """What it leaves when it ends now."""
        last = max(end_of(self.rows), end_of(self.head), self.begin)
        saved = noted(self.saved, replace(self._at(last, ends, numbers), asked=False))
        head, joins = self.head if len(self.head) else self.rows, getattr(self.source, "joins", ())
        return Left(self.number, self.source.meta, self.source.tables, head, head_steps, last, saved, joins)

    def _at(self, time: int, ends: np.ndarray, numbers: np.ndarray) -> Saved:
        taken = int(np.searchsorted(ends, time, side="right"))
        rows = self.rows[: _until(self.rows, time)]
        begin = int(ends[taken - 1]) if taken else 0
        steps = int(numbers[taken - 1]) + 1 if taken else 0
        if begin < self.begin:  # Behind the head no step is there: those that came are gone.
            begin, steps = self.begin, self.steps
        before = _until(rows, begin)
        since = rows[before:]
        tail = tail_of(self.source.tables, since)
        # Behind the last step that was observed there may have been others.
        marks = since[are_marks(self.source.tables, since)]
        steps = int(max([steps, *marks["value"].tolist()]))
        return Saved(steps, time, begin, last_states(self.states, rows[:before]), tail)

    def moved(self, rows: Rows) -> Rows:
        """Rows of its file in the symbols and times of all that it goes on with."""
        return self.source.moved(rows) if isinstance(self.source, Continued) else rows

    def add(self, rows: Rows) -> None:
        self.rows = joined([self.rows, rows]) if len(rows) else self.rows

    def process(self, last: int | None) -> Process:
        """What is there, up to the event with the number `last`, as a process of its own."""
        # A call that began before the border is part of the step, though it ends behind it: a gradient scaler steps
        # around its optimizer.
        rows = self.rows if last is None else self.rows[: _until(self.rows, last)]
        if not len(self.head):
            raw = replace(self.source.raw(rows), until=last)
            if (loaded := self.loaded_until) is not None:
                raw = replace(raw, stretch=Stretch(loaded, 0, loaded, 0))
            return Process(raw)
        head_end = int(self.head["seq"].max())
        raw = self.source.raw(joined([self.head, first_sights(self.states, head_end), rows]))
        stretch = Stretch(self.begin, self.kept, head_end, self.left_out, self.loaded)
        return Process(replace(raw, stretch=stretch, until=last))

    def leave_out(self, begin: int, end: int) -> None:
        """Judge nothing of what came between two times."""
        self.rows = without(self.rows, begin, end)

    def let_go(self, kept: int) -> None:
        """Give back to the disk what was judged, but the last `kept` bytes of it and the head. Raises `OSError`."""
        if self.first_gone >= 0:
            last = self.source.read - len(self.rows) - max(kept, LEAST) // fmt.EVENT.itemsize
            self.gone = let_go(self.source.path, self.first_gone, last, self.gone)

    def close(self, last: int, steps: int, made: int, *, keep: bool) -> None:
        """Let go of the rows up to `last`, or keep them as the beginning; so many steps it has taken then, and so many
        the whole training has made.
        """
        gone = _until(self.rows, last)
        rows = picked(self.rows, slice(gone))
        if keep:
            self.head, self.first_gone, self.kept = rows, self.source.read, steps
        self.left_out = steps - self.kept
        self.states = last_states(self.states, rows)
        self.rows = picked(self.rows, slice(gone, None))  # what is gone is not to be held in memory
        self.begin, self.steps = last, made


def _until(rows: Rows, last: int) -> int:
    """How many of some rows, which are in order of time, are not behind a time."""
    return int(np.searchsorted(rows["seq"], last, side="right"))
