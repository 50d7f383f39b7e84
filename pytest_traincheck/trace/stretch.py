"""A stretch of a long training as a trace of its own: how the training began, and some of its later steps.

A rule looks at a run as a whole. To check a training that goes on for weeks, it is shown runs of a bounded size: the
first steps, as long as golden's runs were, and a stretch of consecutive steps behind them. What every variable was when
the stretch began stands before it as a first sight, which is no change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.columns import Rows, in_a_row, picked
from pytest_traincheck.trace.labels import Bools, Ints


def _none() -> Ints:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Loaded:
    """The batches of training that came in the steps of one process up to a time, as parallel columns."""

    digests: Ints = field(default_factory=_none)
    steps: Ints = field(default_factory=_none)
    epochs: Ints = field(default_factory=_none)
    """How many iterations over the data had ended before each."""
    epoch: int = 0
    """How many have ended."""
    open: bool = False
    """Whether nothing else was loaded since the last batch of training."""
    numbers: Ints = field(default_factory=_none)
    """The epochs that samplers have last drawn for, by the numbers that they were given."""


@dataclass(frozen=True)
class Stretch:
    """Where in a process the later steps begin."""

    begin: int
    """`seq` of the last event before them; what comes behind it is judged."""
    head: int
    """Steps of the beginning that are there."""
    head_end: int
    """`seq` of the last event of the beginning."""
    left_out: int
    """Steps between the beginning and the stretch."""
    loaded: Loaded = field(default_factory=Loaded)
    """What was loaded for training in the beginning and between."""

    def holds(self, seq: npt.NDArray[np.unsignedinteger[Any]]) -> Bools:
        """Which times lie in the beginning or in the stretch."""
        return np.asarray((seq <= self.head_end) | (seq > self.begin))


def last_states(known: Rows, rows: Rows) -> Rows:
    """The last change of each variable in `known` and then `rows`, in order of time."""
    changes = joined([known, picked(rows, rows["kind"] == fmt.CHANGE)])
    # The first of the reversed rows is the last in time.
    _, newest = np.unique(changes["subject"][::-1], return_index=True)
    return picked(changes, np.sort(len(changes) - 1 - newest))


def first_sights(states: Rows, since: int) -> Rows:
    """States that were taken after `since` as rows of what is seen for the first time, outside of every call."""
    rows = picked(states, states["seq"] > since)
    rows["old"] = fmt.UNSEEN
    rows["parent"] = 0
    return rows


def without(rows: Rows, begin: int, end: int) -> Rows:
    """Rows of which nobody is to judge those between two times; what became of the variables meanwhile is a first
    sight.
    """
    gone = (rows["seq"] > begin) & (rows["seq"] <= end)
    return joined([picked(rows, ~gone), first_sights(last_states(rows[:0], picked(rows, gone)), begin)])


def joined(parts: list[Rows]) -> Rows:
    """Rows of several parts of one process, in order of time."""
    rows = in_a_row(parts)
    times = rows["seq"]
    if np.all(times[:-1] <= times[1:]):
        return rows  # as a rule: each part comes behind the one before it
    return picked(rows, np.argsort(times, kind="stable"))
