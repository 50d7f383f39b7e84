"""Reads files of fixed-width rows, and holds the rows of `events.bin` against the format.

With what is checked here a reader can index every table, order the rows by time, and follow parents to an end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.columns import Columns, Rows
from pytest_traincheck.trace.errors import damaged
from pytest_traincheck.trace.labels import Bools
from pytest_traincheck.trace.symbols import Tables

_PIECE = 1 << 20
"""Bytes of a file that are looked at together for where it ends."""


def parse_rows(data: bytes, layout: np.dtype[np.void], path: Path, *, whole: bool) -> Rows:
    """The rows of a file, without the zeros at its end: it is grown ahead, and cut at an orderly end.

    Raises:
        TraceError: a `whole` file ends in the middle of a row.
    """
    size = len(data) // layout.itemsize * layout.itemsize
    _refuse_half_a_row(data[size:], path, whole=whole)
    return np.frombuffer(data, dtype=layout, count=-(-len(data[:size].rstrip(b"\0")) // layout.itemsize))


def read_events(stream: BinaryIO, path: Path, gone: tuple[int, int] = (0, 0), *, whole: bool) -> Columns:
    """The rows of an open `events.bin` in the order of the file, without the zeros at its end, and without those from
    `gone[0]` to `gone[1]`.

    Raises:
        TraceError: a `whole` file ends in the middle of a row.
    """
    length = stream.seek(0, os.SEEK_END)
    size = length // fmt.EVENT.itemsize * fmt.EVENT.itemsize
    stream.seek(size)
    _refuse_half_a_row(stream.read(length - size), path, whole=whole)
    used = -(-_without_zeros(stream, size) // fmt.EVENT.itemsize)
    stream.seek(0)
    first, last = (min(border, used) for border in gone)
    if first == last:
        return Columns.read(stream, used)
    before = Columns.read(stream, first)
    stream.seek(last * fmt.EVENT.itemsize)
    return before.followed_by(Columns.read(stream, used - last))


def _refuse_half_a_row(rest: bytes, path: Path, *, whole: bool) -> None:
    if whole and any(rest):
        raise damaged(path, "it ends in the middle of a row, though the process ended in an orderly way")


def _without_zeros(stream: BinaryIO, size: int) -> int:
    """The length of a file of `size` bytes without the zeros at its end."""
    while size:
        begin = (size - 1) // _PIECE * _PIECE
        stream.seek(begin)
        if used := len(stream.read(size - begin).rstrip(b"\0")):
            return begin + used
        size = begin
    return 0


def checked_events(rows: Columns, tables: Tables, path: Path, *, whole: bool) -> Columns:
    """The rows in the order of `seq`: the given ones are put into it.

    Of a process that was killed the last row may be half written, and symbols of the last few may be missing; these
    rows are left out.

    Raises:
        TraceError: a row is of no kind, has a state or refers to a symbol that does not exist, or contradicts time.
    """
    if not whole:
        if len(rows) and any(wrong[-1] for wrong, _ in _contradictions(Columns.of(rows[-1:]))):
            rows.arrange(np.arange(len(rows) - 1))
        missing = np.zeros(len(rows), dtype=bool)
        for wrong, _ in _dangling(rows, tables):
            missing |= wrong
        if missing.any():
            rows.arrange(~missing)
    for wrong, what in chain(_contradictions(rows), _dangling(rows, tables)):
        if wrong.any():
            raise damaged(path, f"row {int(np.flatnonzero(wrong)[0]) + 1}: {what}")
    order = np.argsort(rows["seq"], kind="stable")
    seq = rows["seq"][order]
    twice = np.flatnonzero(seq[1:] == seq[:-1])
    if twice.size:
        raise damaged(
            path, f"row {int(order[twice[0] + 1]) + 1}: it is not in an order of time, its number stands twice"
        )
    rows.arrange(order)
    return rows


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


def _contradictions(rows: Columns) -> Iterator[tuple[Bools, str]]:
    """What no order of writing explains. `parent` before `seq`: no chain of parents can lead back to itself."""
    kind = rows["kind"]
    yield (kind < fmt.CALL) | (kind > fmt.MEASURE), "it is of no known kind"
    yield rows["seq"] == 0, "it is not in an order of time, it has no number"
    yield rows["end"] < rows["seq"], "it is not in an order of time, it ends before it begins"
    yield rows["parent"] >= np.maximum(rows["seq"], 1), "it lies within a call that begins later"
    states = np.maximum(rows["old"], rows["new"])
    yield (kind == fmt.CHANGE) & (states >= len(fmt.STATE_NAMES)), "it has a state that does not exist"


def _dangling(rows: Columns, tables: Tables) -> Iterator[tuple[Bools, str]]:
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
