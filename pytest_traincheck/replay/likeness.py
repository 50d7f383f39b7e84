"""Whether a batch that is different is made of golden's examples, told by some rows of its largest tensor.

A dataset whose examples were put into another order has others in the places that golden's sampler chose, and that is
no mistake. It is one where most rows are golden's to the last bit and the others are not; where all rows are the same
and golden's are not; and where all are different, but go with golden's: numbers that were scaled twice, or that noise
was added to, correlate with what they were made of. Rows of other examples do so by chance alone.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import cached_property

import numpy as np

from pytest_traincheck.replay.calls import Calls
from pytest_traincheck.replay.computed import Call, Tensor, apart

_FEWEST = 2
"""Rows of a batch that must be golden's to say that it holds golden's examples."""
_VARIED = 4
"""Rows of a batch, all different, that cannot all have become the same by another order."""
_PAIRS, _T = 8, 8.0
"""Rows that a correlation needs at least, and Student's t that chance does not reach: one in 10,000 for eight rows that
differ in one direction alone, one in a million for sixteen.
"""


class Likeness:
    """Knows which batches of a comparison hold golden's examples."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def same_examples(self, golden: Call, candidate: Call) -> bool:
        """Whether single rows say that a batch, made of the places that golden chose, holds golden's examples."""
        ours = self._calls.golden.single.get(golden.index, {})
        theirs = self._calls.candidate.single.get(candidate.index, {})
        if not ours or ours.keys() != theirs.keys():
            return False
        # A row that is there twice may be any of the two.
        often = Counter(map(_content, ours.values()))
        single = [name for name, row in ours.items() if often[_content(row)] == 1]
        kept = [name for name in single if apart(ours[name], theirs[name]) == 0]
        if len(kept) >= _FEWEST and 2 * len(kept) >= len(ours):
            return True
        if len(single) == len(ours) >= _VARIED and len(set(map(_content, theirs.values()))) == 1:
            return True
        return _group(*next(iter(ours.items()))) in self._correlated

    @cached_property
    def _correlated(self) -> frozenset[tuple[str, str, str]]:
        """Tensors whose rows go with golden's."""
        pairs: dict[tuple[str, str, str], dict[tuple[object, ...], tuple[Tensor, Tensor]]] = {}
        for index, rows in self._calls.golden.single.items():
            other = self._calls.pairs.get(index)
            theirs = self._calls.candidate.single.get(other, {}) if other is not None else {}
            for name, row in rows.items():
                if name in theirs and _group(name, row) == _group(name, theirs[name]):
                    # The same example drawn again says nothing new.
                    pairs.setdefault(_group(name, row), {})[_content(row)] = row, theirs[name]
        return frozenset(group for group, found in pairs.items() if _t([*found.values()]) >= _T)


def _group(name: str, row: Tensor) -> tuple[str, str, str]:
    """Rows that can be compared with each other: of one tensor, of one dtype and shape."""
    return name.partition(".")[2], row.dtype, row.shape


def _content(row: Tensor) -> tuple[object, ...]:
    return row.size, row.digest, row.norm, row.mean, row.projections


def _t(pairs: list[tuple[Tensor, Tensor]]) -> float:
    """Student's t of the correlation of rows, each less the mean of all rows of its run."""
    if len(pairs) < _PAIRS:
        return 0.0
    ours, theirs = (np.array([pair[side].projections for pair in pairs]) for side in (0, 1))
    ours, theirs = ours - ours.mean(0), theirs - theirs.mean(0)
    sizes = float(np.linalg.norm(ours) * np.linalg.norm(theirs))
    if not math.isfinite(sizes) or not sizes:
        return 0.0
    r = float((ours * theirs).sum()) / sizes
    return r * math.sqrt((len(pairs) - 2) / max(1 - r * r, 1e-12))
