"""What happens to gradients over time: backward passes that add to them, and clearings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.variables import Variables

NEVER = np.iinfo(np.int64).max
"""Stands for a time that does not come."""


@dataclass(eq=False)
class Gradients:
    """Additions and clearings, as sorted keys of (gradient variable, time)."""

    process: Process

    @staticmethod
    def of(process: Process) -> Gradients:
        return process.memo(Gradients, lambda: Gradients(process))

    @cached_property
    def rows_of_additions(self) -> Ints:
        """Changes of gradients that backward passes made."""
        rows, within, clears = self._rows
        return rows[within & ~clears]

    @cached_property
    def _changes(self) -> tuple[Ints, Ints]:
        rows, _, clears = self._rows
        return self._keys(self.rows_of_additions), self._keys(rows[clears])

    def _keys(self, rows: Ints) -> Ints:
        events = self.process.events
        keys: Ints = (events["subject"][rows].astype(np.int64) << 32) + events["seq"][rows].astype(np.int64)
        return keys

    @cached_property
    def _rows(self) -> tuple[Ints, Bools, Bools]:
        """All changes of gradients: their rows, whether each lies within a backward pass, and whether it clears.

        Hooks may step and clear within a pass. What is gone there was cleared, since a pass takes no gradient away; one
        that is zero may be the gradient, unless `zero_grad` made it so.
        """
        process, events = self.process, self.process.events
        variables = Variables.of(process)
        rows = variables.rows
        rows = rows[np.isin(events["subject"][rows], variables.ids("gradient", tied=True))]
        within = process.inside("autograd")[rows]
        new = events["new"][rows]
        clears = (new == fmt.ABSENT) | ((new == fmt.ZERO) & (~within | process.inside("zero_grad")[rows]))
        return rows, within, clears

    def additions(self, gradient: Ints, after: Ints, until: Ints) -> Ints:
        """How many backward passes added to each gradient in the open interval (after, until)."""
        added, _ = self._changes
        base = gradient << 32
        count: Ints = np.searchsorted(added, base + until) - np.searchsorted(added, base + after, side="right")
        return np.maximum(count, 0)

    def last_clearing(self, gradient: Ints, before: Ints) -> Ints:
        """Time of the last clearing of each gradient before a time; 0 if there was none."""
        _, cleared = self._changes
        if not len(cleared):
            return np.zeros(len(gradient), dtype=np.int64)
        base = gradient << 32
        key = cleared[np.maximum(np.searchsorted(cleared, base + before) - 1, 0)]
        return np.where((key > base) & (key < base + before), key - base, 0)

    def next_clearing(self, gradient: Ints, after: Ints) -> Ints:
        """Time of the first clearing of each gradient after a time; `NEVER` if there is none."""
        return first_after(self._changes[1], gradient, after)

    @cached_property
    def passes_per_window(self) -> Ints:
        """The largest number of backward passes that added to one gradient of an optimizer, for each window."""
        process = self.process
        variables = Variables.of(process)
        held = np.flatnonzero(variables.held)
        gradient = np.unique(variables.companion("gradient")[variables.first_name[held]])
        gradient = gradient[gradient > 0]
        ends = process.step_ends
        if not len(gradient) or not len(ends):
            return np.zeros(len(ends), dtype=np.int64)
        begins = np.concatenate([[0], ends[:-1]])
        counts = self.additions(
            np.tile(gradient, len(ends)), np.repeat(begins, len(gradient)), np.repeat(ends, len(gradient))
        )
        most = np.asarray(counts.reshape(len(ends), len(gradient)).max(axis=1))
        return most + np.where(most > 0, self._postponed, 0) if variables.placed else most

    @property
    def _postponed(self) -> Ints:
        """The backward passes that added to no gradient, for each window. Of parameters of which ranks hold parts, what
        such a pass computes is kept elsewhere until a later one exchanges both.
        """
        process, events = self.process, self.process.events
        passes = process.rows_of_type("autograd")
        passes = passes[~process.inside("autograd", "optimizer")[passes]]
        seq = np.sort(events["seq"][self.rows_of_additions])
        begins, ends = events["seq"][passes], events["end"][passes]
        silent = passes[np.searchsorted(seq, begins) == np.searchsorted(seq, ends)]
        windows = process.window[silent]
        return np.bincount(windows[windows < process.windows], minlength=process.windows)


def first_after(keys: Ints, variable: Ints, after: Ints) -> Ints:
    """The first time after another at which a variable is among sorted keys of (variable, time), or `NEVER`."""
    base = variable << 32
    time = np.append(keys, NEVER)[np.searchsorted(keys, base + after, side="right")] - base
    return np.where(time < 1 << 32, time, NEVER)
