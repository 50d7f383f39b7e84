"""Examples counted by context: what a precondition can tell apart, and nothing more.

A precondition is a function of the context, so examples with the same context are admitted together. There are few
distinct contexts (hundreds, where there are a million examples), and every question of the search is about counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_traincheck.relations.base import Examples
from pytest_traincheck.trace.labels import Bools, Ints, Labels

SPARSE = 4
"""Keys are counted in an array while it has at most this many entries for each example; beyond, they are sorted."""


@dataclass(frozen=True)
class ContextTable:
    """One row for each distinct context.

    `good` and `bad` count its positive and negative examples in all runs; `good_by_run` and `bad_by_run` have one
    column for each golden run. `of_example` is the row of each example.
    """

    good: Ints
    bad: Ints
    good_by_run: Ints
    bad_by_run: Ints
    columns: Mapping[str, Labels]
    of_example: Ints

    def __len__(self) -> int:
        return len(self.good)


def count_contexts(examples: Examples, runs: Sequence[int]) -> ContextTable:
    """The table of some examples.

    Args:
        runs: how many of the examples belong to each golden run, in order; those beyond belong to varied runs.
    """
    size = len(examples)
    row, count = np.zeros(size, dtype=np.int64), 1
    for column in examples.context.values():
        if len(column.values) > 1:
            row, count = _merged(row, count, column)
    run = np.full(size, len(runs), dtype=np.int64)
    run[: sum(runs)] = np.repeat(np.arange(len(runs)), runs)
    cell = row * (len(runs) + 1) + run
    cells = count * (len(runs) + 1)
    good = np.bincount(cell[examples.holds], minlength=cells).reshape(count, -1)
    bad = np.bincount(cell[~examples.holds], minlength=cells).reshape(count, -1)
    # Any example of a context stands for its values.
    sample = np.empty(count, dtype=np.int64)
    sample[row] = np.arange(size)
    columns = {name: column.take(sample) for name, column in examples.context.items()}
    return ContextTable(good.sum(1), bad.sum(1), good[:, :-1], bad[:, :-1], columns, row)


def _merged(row: Ints, count: int, column: Labels) -> tuple[Ints, int]:
    """Rows split by one more column, numbered without gaps."""
    key = row * len(column.values) + column.codes
    keys = count * len(column.values)
    if keys > SPARSE * len(key):
        found, row = np.unique(key, return_inverse=True)
        return row.astype(np.int64, copy=False), len(found)
    used = np.flatnonzero(np.bincount(key, minlength=keys))
    number = np.zeros(keys, dtype=np.int64)
    number[used] = np.arange(len(used))
    return number[key], len(used)


def names_seen(column: Labels, mask: Bools) -> frozenset[str]:
    """The values that a column takes in some rows."""
    return frozenset(column.values[code] for code in np.unique(column.codes[mask]).tolist())
