"""What a training has left for another process to go on with: how it began, and what it was whenever it saved.

It is small, since nothing of the steps in between is in it, and all that rules need in order to take the first step of
the other process for the next one of the same training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.columns import Rows
from pytest_traincheck.trace.symbols import Tables

LONGEST = 1 << 14
"""Events behind a step of which all are kept; of more, as of an evaluation, those that are no calls of models."""
MOST = 16
"""States that are remembered of one process."""
RECENT = 8
"""The latest of them, of which none is left out."""


@dataclass(frozen=True)
class Saved:
    """What every variable was after so many steps of the training."""

    steps: int
    seq: int
    """Time of the last event of the process that counts."""
    begin: int
    """Time at which the last of these steps ended."""
    states: Rows
    """The last change of each variable until then."""
    tail: Rows
    """What came behind it, and belongs to the next step: a scheduler is stepped, an average follows."""
    asked: bool = True
    """Whether the training saved something then; it has ended otherwise."""


@dataclass(frozen=True)
class Left:
    """What one rank has left."""

    rank: int
    meta: Mapping[str, Any]
    tables: Tables
    head: Rows
    """Its first steps, as many as golden has, or as there are."""
    head_steps: int
    last: int
    """The last time that its events speak of."""
    saved: tuple[Saved, ...]
    joins: tuple[int, ...] = ()
    """Times at which it went on with an earlier process itself."""

    def at(self, saved: Saved) -> Left:
        """The same as it was then: nothing that came later counts."""
        kept = self.head[self.head["seq"] <= saved.begin]
        return replace(self, head=kept, head_steps=min(self.head_steps, saved.steps))


@dataclass(frozen=True)
class Ending:
    """What all ranks of a training have left, and what is known of it.

    `same_spec` and `other_length` say which rules of the golden are for it; `broken` are the ids of those that did not
    hold in the end, `episodes` how often each was told to be broken, and `granted` those that may be broken.
    """

    ranks: tuple[Left, ...]
    same_spec: bool = True
    other_length: bool = False
    broken: frozenset[str] = frozenset()
    episodes: Mapping[str, int] = field(default_factory=dict)
    granted: Mapping[str, str] = field(default_factory=dict)
    observed: int = 0
    """Training steps that were observed until then."""

    def of(self, rank: int) -> Left:
        """What is there for a rank: its own, or where there are more ranks now, what the first has left."""
        return next((left for left in self.ranks if left.rank == rank), self.ranks[0])

    @property
    def steps(self) -> int:
        """Steps of the latest state that was saved; of the last one where none was."""
        asked = [saved.steps for saved in self.ranks[0].saved if saved.asked]
        return max(asked or (saved.steps for saved in self.ranks[0].saved), default=0)


@dataclass(frozen=True)
class Resume:
    """A launch goes on with an earlier training, after so many steps of it."""

    ending: Ending
    steps: int
    alike: float
    """Part of the parameters that are what they were then."""


def tail_of(tables: Tables, rows: Rows) -> Rows:
    """What of the events behind a step is kept."""
    if len(rows) <= LONGEST:
        return rows
    inner = np.array([each.get("type") in ("module", "function") for each in tables["api"]], dtype=bool)
    calls = rows["kind"] == fmt.CALL
    kept: Rows = rows[~(calls & inner[np.where(calls, rows["subject"], 0)])]
    return kept[-LONGEST:]


def noted(known: Sequence[Saved], new: Saved) -> tuple[Saved, ...]:
    """The states that are remembered when one more was saved.

    Of several after the same step the last counts. Where there are too many, every other one of the older half goes:
    what a training goes on from is mostly among the latest.
    """
    asked = new.asked or any(saved.asked for saved in known if saved.steps == new.steps)
    found = [saved for saved in known if saved.steps != new.steps]
    found.append(replace(new, asked=asked))
    if len(found) > MOST:
        older, recent = found[:-RECENT], found[-RECENT:]
        found = [*older[::2], *recent]
    return tuple(found)
