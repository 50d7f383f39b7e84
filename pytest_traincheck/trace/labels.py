"""Categorical columns: codes into a table of strings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Labels:
    """A column of strings stored as codes: `values[codes[i]]` is entry `i`. Values are distinct."""

    codes: Ints
    values: tuple[str, ...]

    @staticmethod
    def of(codes: npt.ArrayLike, table: Sequence[str]) -> Labels:
        """From codes into a table that may hold a string twice or hold unused ones."""
        raw = np.asarray(codes, dtype=np.int64)
        used = np.flatnonzero(np.bincount(raw, minlength=len(table)))
        index: dict[str, int] = {}
        remap = np.zeros(len(table), dtype=np.int64)
        remap[used] = [index.setdefault(table[code], len(index)) for code in used.tolist()]
        return Labels(remap[raw], tuple(index))

    @staticmethod
    def constant(value: str, size: int) -> Labels:
        return Labels(np.zeros(size, dtype=np.int64), (value,))

    @staticmethod
    def flags(mask: Bools, true: str = "yes", false: str = "no") -> Labels:
        return Labels.of(mask.astype(np.int64), (false, true))

    @staticmethod
    def concatenate(parts: Iterable[Labels]) -> Labels:
        index: dict[str, int] = {}
        columns: list[Ints] = []
        for part in parts:
            remap = np.array([index.setdefault(value, len(index)) for value in part.values], dtype=np.int64)
            columns.append(remap[part.codes] if len(part.values) else part.codes)
        codes = np.concatenate(columns) if columns else np.empty(0, dtype=np.int64)
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
        table = np.array([value in wanted for value in self.values], dtype=bool)
        if not len(table):
            return np.zeros(len(self.codes), dtype=bool)
        return table[self.codes]
