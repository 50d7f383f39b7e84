"""Reads files of fixed-width rows, and holds the rows of `events.bin` against the format.

With what is checked here a reader can index every table, order the rows by time, and follow parents to an end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.errors import damaged
from pytest_traincheck.trace.labels import Bools
from pytest_traincheck.trace.symbols import Tables

Rows = npt.NDArray[np.void]


def parse_rows(data: bytes, layout: np.dtype[np.void], path: Path, *, whole: bool) -> Rows:
    """The rows of a file, without the zeros at its end: it is grown ahead, and cut at an orderly end.

    Raises:
        TraceError: a `whole` file ends in the middle of a row.
    """
    size = len(data) // layout.itemsize * layout.itemsize
    if whole and any(data[size:]):
        raise damaged(path, "it ends in the middle of a row, though the process ended in an orderly way")
    raw = np.frombuffer(data, dtype=np.uint8, count=size).reshape(-1, layout.itemsize)
    used = np.flatnonzero(raw.any(axis=1))
    return np.frombuffer(data, dtype=layout, count=int(used[-1]) + 1 if used.size else 0)


def checked_events(rows: Rows, tables: Tables, path: Path, *, whole: bool) -> Rows:
    """The rows in the order of `seq`.

    Of a process that was killed the last row may be half written, and symbols of the last few may be missing; these
    rows are left out.

    Raises:
        TraceError: a row is of no kind, has a state or refers to a symbol that does not exist, or contradicts time.
    """
    if not whole:
        if len(rows) and any(wrong[-1] for wrong, _ in _contradictions(rows[-1:])):
            rows = rows[:-1]
        missing = np.zeros(len(rows), dtype=bool)
        for wrong, _ in _dangling(rows, tables):
            missing |= wrong
        rows = rows[~missing]
    for wrong, what in (*_contradictions(rows), *_dangling(rows, tables)):
        if wrong.any():
            raise damaged(path, f"row {int(np.flatnonzero(wrong)[0]) + 1}: {what}")
    seq = rows["seq"]
    order = np.argsort(seq, kind="stable")
    twice = np.flatnonzero(np.diff(seq[order]) == 0)
    if twice.size:
        raise damaged(
            path, f"row {int(order[twice[0] + 1]) + 1}: it is not in an order of time, its number stands twice"
        )
    return rows[order]


def checked_sketches(rows: Rows, tables: Tables, path: Path, *, whole: bool) -> Rows:
    """The rows in their order, without those whose symbols were lost with a killed process.

    Raises:
        TraceError: a row of a `whole` file refers to a symbol that does not exist.
    """
    wrong = (
        (rows["slot"] == 0) | (rows["slot"] >= len(tables["slot"])) | (rows["var"] >= len(tables["var"]))
    )  # fmt: skip
    if whole and wrong.any():
        raise damaged(path, f"row {int(np.flatnonzero(wrong)[0]) + 1}: it refers to a symbol that is not there")
    return rows[~wrong] if wrong.any() else rows


def _contradictions(rows: Rows) -> Iterator[tuple[Bools, str]]:
    """What no order of writing explains. `parent` before `seq`: no chain of parents can lead back to itself."""
    kind = rows["kind"]
    yield ~np.isin(kind, (fmt.CALL, fmt.CHANGE, fmt.MEASURE)), "it is of no known kind"
    yield rows["seq"] == 0, "it is not in an order of time, it has no number"
    yield rows["end"] < rows["seq"], "it is not in an order of time, it ends before it begins"
    yield rows["parent"] >= np.maximum(rows["seq"], 1), "it lies within a call that begins later"
    states = np.maximum(rows["old"], rows["new"])
    yield (kind == fmt.CHANGE) & (states >= len(fmt.STATE_NAMES)), "it has a state that does not exist"


def _dangling(rows: Rows, tables: Tables) -> Iterator[tuple[Bools, str]]:
    """Rows by the symbols that they need and that are not there. A row is written after its symbols."""
    sizes: Mapping[str, int] = {kind: len(table) for kind, table in tables.items()}
    for column in ("ctx", "ret", "src", "mod", "opt"):
        yield rows[column] >= sizes[column], f"it refers to a `{column}` that is not there"
    for kind, column, table in (
        (fmt.CALL, "subject", "api"),
        (fmt.CALL, "args", "args"),
        (fmt.CHANGE, "subject", "var"),
        (fmt.MEASURE, "subject", "measure"),
        # A measure's variable stands where a call has its arguments.
        (fmt.MEASURE, "args", "var"),
    ):
        yield (rows["kind"] == kind) & (rows[column] >= sizes[table]), f"it refers to a `{table}` that is not there"
