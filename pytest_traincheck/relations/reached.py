"""Where terms of a loss send gradients when other parameters are trained than in the beginning.

The same terms reach the same layers then: their sets of parameters grow by what was set free, and lose what was frozen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_traincheck.relations.thawed import trainable_at
from pytest_traincheck.trace import Process
from pytest_traincheck.trace.labels import Bools, Ints
from pytest_traincheck.trace.variables import Variables

_MOST = 4096
"""Of more ways in which a set may have grown it is not asked which one it is."""
Trained = Mapping[str, int]
"""The elements of each trainable parameter, by its name."""


def grown(process: Process, rows: Ints, sizes: Sequence[Sequence[int]], wanted: Sequence[int]) -> Bools:
    """Which of the backward passes of later steps reach sets as large as `wanted` but for what was set free or frozen
    since the passes of the beginning.

    Args:
        rows: the backward passes.
        sizes: for each the elements of the sets that its terms reach.
        wanted: elements of the sets in golden, whose passes are those of the beginning.
    """
    found, stretch = np.zeros(len(rows), dtype=bool), process.raw.stretch
    if stretch is None:
        return found
    times, judged = process.events["seq"][rows].astype(np.int64), process.judged(rows)
    beginning = _trained(process, times[~judged] if not judged.all() else np.array([stretch.head_end]))
    for now, places in _trained(process, times[judged]):
        others = [_Other.between(then, now) for then, _ in beginning]
        # How many elements there are is not known of what several ranks have parts of.
        unknown = bool(Variables.of(process).placed) and any(each.freed or each.frozen for each in others)
        for row in np.flatnonzero(judged)[places].tolist():
            found[row] = unknown or any(each.explains(sizes[row], wanted) for each in others)
    return found


@dataclass(frozen=True)
class _Other:
    """What is trained at one time and was not at another, or the other way round: numbers of elements."""

    freed: int
    frozen: int
    steps: frozenset[int]
    """By how much a set may have grown; empty where there are too many ways to tell."""

    @staticmethod
    def between(then: Trained, now: Trained) -> _Other:
        freed = [size for name, size in now.items() if name not in then]
        frozen = [-size for name, size in then.items() if name not in now]
        steps = {0}
        for size in freed + frozen:
            steps |= {each + size for each in steps}
            if len(steps) > _MOST:
                return _Other(sum(freed), -sum(frozen), frozenset())
        return _Other(sum(freed), -sum(frozen), frozenset(steps))

    def fits(self, size: int, before: int) -> bool:
        """Whether a set may have been one of another size."""
        if self.steps:
            return size - before in self.steps
        return before - self.frozen <= size <= before + self.freed

    def explains(self, sizes: Sequence[int], wanted: Sequence[int]) -> bool:
        """Whether each set that was there before is still there as one of its own, and all others may come from one of
        them. A set of nothing but what was frozen is none any more, and one of nothing but what was set free was none.
        """
        lasting = [before for before in wanted if before > self.frozen]
        others = [size for size in sizes if size > self.freed]
        return self._each_is_one_of(lasting, sizes) and all(
            any(self.fits(size, before) for before in wanted) for size in others
        )

    def _each_is_one_of(self, lasting: Sequence[int], sizes: Sequence[int]) -> bool:
        """Whether sets can be taken for others, each for one of its own, by augmenting paths (Kuhn 1955)."""
        taken: dict[int, int] = {}

        def place(before: int, tried: set[int]) -> bool:
            for size in sizes:
                if size not in tried and self.fits(size, before):
                    tried.add(size)
                    if size not in taken or place(taken[size], tried):
                        taken[size] = before
                        return True
            return False

        return all(place(before, set()) for before in lasting)


def _trained(process: Process, times: Ints) -> list[tuple[Trained, Ints]]:
    """What is trained at some times, each with the places of those at which it is: most passes come while nothing is
    set free or made.
    """
    variables, events = Variables.of(process), process.events
    ids = variables.ids("parameter")
    flags = variables.companion("requires_grad")[ids]
    changes = variables.rows[np.isin(events["subject"][variables.rows], flags[flags > 0])]
    moments = np.sort(np.concatenate([events["seq"][changes].astype(np.int64), variables.first_seen(ids)]))
    periods = np.searchsorted(moments, times)
    return [
        (_trained_at(process, ids, int(times[periods == period][0])), np.flatnonzero(periods == period))
        for period in np.unique(periods)
    ]


def _trained_at(process: Process, ids: Ints, time: int) -> Trained:
    """Of parameters with one name the latest is meant: those of the process that has gone on."""
    variables, names = Variables.of(process), process.names.variables
    there = ids[variables.first_seen(ids) <= time]
    free = trainable_at(process, there, np.full(len(there), time))
    latest = dict(
        zip([names[number] for number in there.tolist()], zip(there.tolist(), free.tolist(), strict=True), strict=True)
    )
    return {name: _elements(variables, number) for name, (number, is_free) in latest.items() if is_free}


def _elements(variables: Variables, number: int) -> int:
    return int(np.prod(variables.symbols[number].get("shape") or [1]))
