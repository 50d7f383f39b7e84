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


@dataclass(frozen=True)
class Labels:
    """A column of strings stored as codes: `values[codes[i]]` is entry `i`. Values are distinct."""

    codes: Codes
    values: tuple[str, ...]

    @staticmethod
    def of(codes: npt.ArrayLike, table: Sequence[str]) -> Labels:
        """From codes into a table that may hold a string twice or hold unused ones."""
        raw = np.asarray(codes)
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
        return Labels.of(mask.view(np.int8), (false, true))

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


def _smallest(size: int) -> type[np.signedinteger[Any]]:
    """The smallest type of numbers below `size`."""
    return np.int8 if size <= 1 << 7 else np.int16 if size <= 1 << 15 else np.int32


def _occurring(codes: npt.NDArray[np.integer[Any]], size: int) -> Bools:
    """Which of the numbers below `size` occur."""
    found = np.zeros(size, dtype=bool)
    found[codes] = True
    return found
