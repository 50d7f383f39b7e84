"""Reads the trace of a process that may still be writing it, piece by piece."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.columns import Columns, Rows
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.trace.gone import gone_rows
from pytest_traincheck.trace.reader import RawTrace, read_meta
from pytest_traincheck.trace.rows import checked_events
from pytest_traincheck.trace.symbols import Tables, parse_symbols

_NOTHING = np.empty(0, dtype=fmt.EVENT)
_SIZE = fmt.EVENT.itemsize


class GrowingProcess:
    """One process directory. What was read is not kept here.

    The files are grown ahead of what is written, with zeros. A row is whole when another one follows it, or when the
    process has ended.
    """

    def __init__(self, path: Path) -> None:
        """Raises `TraceError` where the description of the process cannot be read, or rows of it are gone."""
        self.path = path
        if any(gone_rows(path)):
            raise TraceError(
                f"some events were let go while the run was watched (`--keep`): {path}; `traincheck trace` shows the "
                "others"
            )
        self.meta: Mapping[str, Any] = read_meta(path / "meta.json")
        self.tables: Tables = parse_symbols(b"", path / "symbols.jsonl", whole=False)
        self.done = False
        """Whether the process said that it ended, and all of its rows were read."""
        self.read = 0
        """Rows that were read."""
        self._lines = b""

    def next_rows(self, limit: int) -> Rows:
        """Up to `limit` rows that follow those read before, in order of time.

        Raises:
            TraceError: a file is damaged, or cannot be read any more.
        """
        # Before the rows: once it says that it has ended, nothing is added.
        self.meta = read_meta(self.path / "meta.json")
        data = _read(self.path / "events.bin", self.read * _SIZE, (limit + 1) * _SIZE)
        rows = np.frombuffer(data[: len(data) // _SIZE * _SIZE], dtype=fmt.EVENT)
        written = int(np.argmin(rows["kind"])) if len(rows) and not rows["kind"].all() else len(rows)
        finished = bool(self.meta.get("finished"))
        if written > limit:
            written = limit
        elif not finished:
            written = max(0, written - 1)
        else:
            self.done = True
        if not written:
            return _NOTHING
        self.read += written
        self._read_symbols()
        found = checked_events(Columns.of(rows[:written]), self.tables, self.path / "events.bin", whole=finished)
        return found[:]

    def raw(self, events: Rows) -> RawTrace:
        """Some of its rows, in order of time, as a trace."""
        return RawTrace(self.path, self.meta, self.tables, Columns.of(events))

    def _read_symbols(self) -> None:
        """Rows first, then symbols: every row that was read has its symbols then."""
        path = self.path / "symbols.jsonl"
        new = _read(path, len(self._lines), path.stat().st_size if path.exists() else 0)
        # A line is copied into the file's memory in no order, so that its end may be there before its middle.
        new = new.partition(b"\0")[0]
        new = new[: new.rfind(b"\n") + 1]
        if new:
            self._lines += new
            self.tables = parse_symbols(self._lines, path, whole=False)


def _read(path: Path, offset: int, size: int) -> bytes:
    """Up to `size` bytes of a file; none where it is not there yet."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        return os.pread(descriptor, size, offset)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(descriptor)


def _unreadable(path: Path, error: OSError) -> TraceError:
    return TraceError(f"a file of the trace cannot be read: {path}: {error.strerror or error}; check its permissions")
