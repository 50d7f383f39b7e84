"""Categorical columns: codes into a table of strings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.signedinteger[Any]]
"""Numbers below the size of some table, in as few bytes as that takes: a long run has millions of them."""

_COMPARED = 8
"""Codes that a column is compared with one by one, which is faster than to look all of it up in a table."""

_SPARSE = 4
"""Pairs are marked in an array that has at most so many places for each line; beyond, they are sorted."""


@dataclass(frozen=True)
class Labels:
    """A column of strings stored as codes: `values[codes[i]]` is entry `i`. Values are distinct."""

    codes: Codes
    values: tuple[str, ...]

    @staticmethod
    def of(codes: npt.ArrayLike, table: Sequence[str]) -> Labels:
        """From codes into a table that may hold a string twice or hold unused ones."""
        raw = np.asarray(codes)
        if raw.dtype.kind not in "iu":  # of an empty list, or of flags, which would choose rather than count
            raw = raw.astype(np.int64)
        used = np.flatnonzero(_occurring(raw, len(table)))
        index: dict[str, int] = {}
        remap = np.zeros(len(table), dtype=_smallest(len(table)))
        remap[used] = [index.setdefault(table[code], len(index)) for code in used.tolist()]
        return Labels(remap[raw], tuple(index))

    @staticmethod
    def constant(value: str, size: int) -> Labels:
        return Labels(np.zeros(size, dtype=np.int8), (value,))

    @staticmethod
    def flags(mask: Bools, true: str = "yes", false: str = "no") -> Labels:
        if len(mask) and (mask.all() or not mask.any()):
            return Labels.constant(true if mask[0] else false, len(mask))
        return Labels(mask.view(np.int8), (false, true) if len(mask) else ())

    @staticmethod
    def concatenate(parts: Iterable[Labels]) -> Labels:
        index: dict[str, int] = {}
        columns: list[Codes] = []
        for part in parts:
            places = [index.setdefault(value, len(index)) for value in part.values]
            remap = np.array(places, dtype=_smallest(len(index)))
            columns.append(remap[part.codes] if len(part.values) else part.codes)
        codes = np.concatenate(columns) if columns else np.empty(0, dtype=np.int8)
        return Labels(codes, tuple(index))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, position: int) -> str:
        return self.values[int(self.codes[position])]

    def groups(self, rows: Ints) -> dict[str, Ints]:
        """The given positions by the string they hold, in order."""
        codes = self.codes[rows]
        order = np.argsort(codes, kind="stable")
        borders = np.searchsorted(codes[order], np.arange(len(self.values) + 1))
        found = {}
        for code, value in enumerate(self.values):
            low, high = int(borders[code]), int(borders[code + 1])
            if low < high:
                found[value] = rows[order[low:high]]
        return found

    def take(self, rows: npt.NDArray[np.int64] | Bools) -> Labels:
        return Labels(self.codes[rows], self.values)

    def isin(self, values: Iterable[str]) -> Bools:
        wanted = set(values)
        chosen = [code for code, value in enumerate(self.values) if value in wanted]
        if len(chosen) > _COMPARED:
            table = np.zeros(len(self.values), dtype=bool)
            table[chosen] = True
            return table[self.codes]
        found = np.zeros(len(self.codes), dtype=bool)
        for code in chosen:
            found |= self.codes == code
        return found


def pairs_of(first: npt.NDArray[np.integer[Any]], second: npt.NDArray[np.integer[Any]]) -> tuple[Ints, Ints, Ints]:
    """Each pair of two columns of small numbers from 0 on once, in order: its two numbers, and its first place."""
    width = int(second.max(initial=0)) + 1
    size = (int(first.max(initial=0)) + 1) * width
    key = first.astype(np.int64) * width + second
    if size > _SPARSE * len(key):
        found, places = np.unique(key, return_index=True)
        return found // width, found % width, places
    place = np.full(size, len(key), dtype=np.int64)
    # Written from the last to the first, so that the first stays.
    place[key[::-1]] = np.arange(len(key) - 1, -1, -1)
    found = np.flatnonzero(place < len(key))
    return found // width, found % width, place[found]


def among(values: npt.NDArray[Any], chosen: npt.NDArray[Any]) -> Bools:
    """Which values are among others, of the same type and spread over a wide range.

    `np.isin` sorts the values as well, of which there may be millions.
    """
    if not len(chosen):
        return np.zeros(np.shape(values), dtype=bool)
    table = np.sort(chosen)
    place = np.minimum(np.searchsorted(table, values), len(table) - 1)
    return np.asarray(table[place] == values)


def _smallest(size: int) -> type[np.signedinteger[Any]]:
    """The smallest type of numbers below `size`."""
    return np.int8 if size <= 1 << 7 else np.int16 if size <= 1 << 15 else np.int32


def _occurring(codes: npt.NDArray[np.integer[Any]], size: int) -> Bools:
    """Which of the numbers below `size` occur."""
    found = np.zeros(size, dtype=bool)
    found[codes] = True
    return found
