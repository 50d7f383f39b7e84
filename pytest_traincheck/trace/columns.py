"""The rows of `events.bin`, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, overload

import numpy as np
import numpy.typing as npt

from pytest_traincheck.trace.format import EVENT
from pytest_traincheck.trace.labels import Bools, Ints

Rows = npt.NDArray[np.void]

_KEPT = tuple(name for name in EVENT.names or () if name != "spare")

_WHOLE = np.dtype((np.void, EVENT.itemsize))
"""A row as so many bytes. As events numpy copies them field by field, which takes twenty times as long."""

_ROWS_AT_ONCE = 1 << 14
"""A megabyte, so that all columns are cut out of it while it is in the cache of a processor."""


def picked(rows: Rows, which: slice | Ints | Bools) -> Rows:
    """A copy of some rows."""
    found = rows.view(_WHOLE)[which]
    return (found.copy() if isinstance(which, slice) else found).view(EVENT)


def in_a_row(parts: Sequence[Rows]) -> Rows:
    """A copy of the rows of all parts, one part behind the other."""
    return np.concatenate([part.view(_WHOLE) for part in parts]).view(EVENT)


class Columns:
    """Events as one would have them in an array of rows: `events["seq"]` is a column, `events[row]` a row, and
    `events[rows]` an array of some.

    What asks for a column reads that column alone. In an array of rows it goes through all 64 bytes of every row, which
    for a long run is most of what learning and checking cost. Nobody may write into a column.
    """

    def __init__(self, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        self._columns = dict(columns)

    @staticmethod
    def of(rows: Rows) -> Columns:
        """The columns of an array of rows."""
        return Columns({name: np.ascontiguousarray(rows[name]) for name in _KEPT})

    @staticmethod
    def read(stream: BinaryIO, size: int) -> Columns:
        """The next `size` rows of a file, or as many as it has.

        Rows are never all in memory beside the columns.
        """
        columns: dict[str, npt.NDArray[Any]] = {name: np.empty(size, dtype=EVENT[name]) for name in _KEPT}
        done = 0
        while done < size:
            data = stream.read(min(_ROWS_AT_ONCE, size - done) * EVENT.itemsize)
            part = np.frombuffer(data, dtype=EVENT, count=len(data) // EVENT.itemsize)
            if not len(part):
                break  # The file has been cut since its length was asked for.
            for name, column in columns.items():
                column[done : done + len(part)] = part[name]
            done += len(part)
        return Columns({name: column[:done] for name, column in columns.items()})

    def __len__(self) -> int:
        return len(self._columns["kind"])

    @overload
    def __getitem__(self, key: str) -> npt.NDArray[Any]: ...
    @overload
    def __getitem__(self, key: int) -> np.void: ...
    @overload
    def __getitem__(self, key: slice | Ints | Bools) -> Rows: ...
    def __getitem__(self, key: str | int | slice | Ints | Bools) -> npt.NDArray[Any] | np.void:
        if isinstance(key, str):
            return self._columns[key]
        chosen = {name: column[key] for name, column in self._columns.items()}
        found: Rows = np.zeros(np.shape(chosen["kind"]), dtype=EVENT)
        for name, column in chosen.items():
            found[name] = column
        return found if found.ndim else found[()]

    def but(self, **columns: npt.NDArray[Any]) -> Columns:
        """The same events with other columns; those that are not named are shared."""
        return Columns({**self._columns, **columns})

    def followed_by(self, others: Columns) -> Columns:
        """These events and then others."""
        return Columns({name: np.concatenate([column, others[name]]) for name, column in self._columns.items()})

    def arrange(self, rows: Ints | Bools) -> None:
        """Puts the given rows, in the given order, in the place of all; one column after the other, so that no more
        than one is there twice.
        """
        for name, column in self._columns.items():
            self._columns[name] = column[rows]
