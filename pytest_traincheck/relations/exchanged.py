"""What ranks put into a collective, and what it left on each: whether that is their sum, their mean or a copy.

Sketches are sums of elements with fixed signs, so that the sketch of a sum is the sum of sketches: one rank's numbers
are checked against those of the others without the tensors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pytest_traincheck.trace import Process
from pytest_traincheck.trace.reader import read_sketches

Made = Literal["sum", "mean", "copy"]
"""What a collective makes of what it is given."""
MADE: Mapping[Made, str] = {
    "sum": "the sum of what all ranks put in",
    "mean": "the mean of what all ranks put in",
    "copy": "a copy of what was put in",
}

_EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_ROOM = 64
"""Rounding units of what is summed that a sum may be off: of its elements each, and of the tree they are added in."""


@dataclass(frozen=True)
class Sketched:
    """One tensor of a collective: its size, norm and projections. `dtype` is that of a floating-point tensor."""

    dtype: str
    size: int
    norm: float
    projections: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Exchange:
    """One call of a collective on one rank: what was put in, and what was left, a tensor or one for each rank."""

    given: tuple[Sketched, ...]
    left: tuple[Sketched, ...]


def exchanges(process: Process) -> Mapping[int, Exchange]:
    """The collectives of which both is known, by the `seq` of their call."""
    return process.memo("exchanges", lambda: _exchanges(process))


def _exchanges(process: Process) -> Mapping[int, Exchange]:
    rows = read_sketches(process.raw)
    slots = process.raw.symbols["slot"]
    names = [str(slot.get("name", "")).split(".") for slot in slots]
    left = np.array([name[0] == "left" for name in names], dtype=bool)
    calls = np.unique(rows["call"][left[rows["slot"]]]) if len(rows) else rows
    found: dict[int, Exchange] = {}
    for seq in calls.tolist():
        mine = rows[rows["call"] == seq]
        given = [row for row in mine if names[int(row["slot"])][0] == "in"]
        # The first argument is what is written into, where another holds what is put in.
        heads = list(dict.fromkeys(names[int(row["slot"])][1] for row in given))
        put = [_sketched(row, slots) for row in given if names[int(row["slot"])][1] == heads[-1]]
        after = [_sketched(row, slots) for row in mine if left[int(row["slot"])]]
        if all(put) and all(after):
            found[seq] = Exchange(
                tuple(item for item in put if item is not None), tuple(item for item in after if item is not None)
            )
    return found


def _sketched(row: np.void, slots: Sequence[Mapping[str, object]]) -> Sketched | None:
    dtype = str(slots[int(row["slot"])].get("dtype", ""))
    projections = np.asarray(row["projections"], dtype=np.float64)
    hidden = dtype in _EPSILON and int(row["digest"])  # elements that mask others are not in the numbers
    if hidden or dtype not in _EPSILON or not np.isfinite([*projections, row["norm"]]).all():
        return None
    return Sketched(dtype, int(row["size"]), float(row["norm"]), projections)


def makes(made: Made, ranks: Sequence[Exchange], source: int) -> tuple[bool, str] | None:
    """Whether one collective of all ranks of a group made this of what they put in, and in words what it made instead;
    None where that is not known: the mean of what is the same on all ranks is also the largest, or any one of them.

    Args:
        source: position of the rank whose tensor is copied to all; -1 where each rank's is.
    """
    wanted = _wanted(made, ranks, source)
    if wanted is None:
        return None
    for position, rank in enumerate(ranks):
        if len(rank.left) != len(wanted):
            return None
        for (projections, norms), seen in zip(wanted, rank.left, strict=True):
            room = _ROOM * _EPSILON[seen.dtype] * max(norms, math.ulp(0.0)) * math.sqrt(len(ranks))
            if float(np.abs(projections - seen.projections).max()) > room:
                return False, _instead(projections, seen, position)
    return None if made == "mean" and _put_in_the_same(ranks) else (True, "")


def _put_in_the_same(ranks: Sequence[Exchange]) -> bool:
    first, *others = (rank.given[0].projections for rank in ranks)
    return all(np.array_equal(first, other) for other in others)


def _wanted(made: Made, ranks: Sequence[Exchange], source: int) -> list[tuple[npt.NDArray[np.float64], float]] | None:
    """Projections of what should be left, and the size of what they are made of, for each tensor that is left."""
    if any(len(rank.given) != 1 for rank in ranks):
        return None
    given = [rank.given[0] for rank in ranks]
    if len({item.size for item in given}) != 1:
        return None
    if made == "copy":
        chosen = given if source < 0 else [given[source]]
        return [(item.projections, item.norm) for item in chosen]
    total = np.sum([item.projections for item in given], axis=0)
    norms = sum(item.norm for item in given)
    share = 1 / len(given) if made == "mean" else 1.0
    return [(total * share, norms * share)]


def _instead(wanted: npt.NDArray[np.float64], seen: Sketched, position: int) -> str:
    """`zero`, a multiple of what was wanted, or something else; with the position of the rank."""
    if not seen.norm:
        return f"{position} zero"
    factor = float(wanted @ seen.projections) / float(wanted @ wanted) if wanted.any() else 0.0
    rest = np.abs(seen.projections - factor * wanted).max()
    if factor and rest <= 1e-3 * float(np.abs(seen.projections).max()):
        return f"{position} {factor:.4g} times that"
    return f"{position} something else"


def puts_in_zeros(ranks: Sequence[Exchange]) -> list[bool] | None:
    """Which ranks put in nothing but zeros; None of single numbers, which may well be zero."""
    given = [item for rank in ranks for item in rank.given]
    if len(given) != len(ranks) or any(item.size < 2 for item in given):
        return None
    return [item.norm == 0 for item in given]
