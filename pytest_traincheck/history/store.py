"""Reads histories, and appends to them: one JSON object a line, so that many jobs can write to one file.

A line is written by one call to a file that is opened for appending, under a lock: lines of jobs that end at the same
time come one behind the other, and a reader never sees half of one. Where a job was killed while it wrote, the next one
begins with a line break, and whoever reads names the line.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_traincheck.atomic import make_directory
from pytest_traincheck.disk import write_remedy
from pytest_traincheck.history.record import HistoryError, Record, from_json
from pytest_traincheck.json_lines import Place, parse

_DAMAGED = "Delete this line; the others do not need it."


def append(path: Path, record: Record) -> None:
    """Add a line, and make the file where there is none. Raises `HistoryError` when it cannot be written."""
    text = json.dumps(record.to_json(), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    # Half of a surrogate pair can come in with a file name; no reader takes it.
    line = text.encode("utf-8", errors="replace") + b"\n"
    try:
        make_directory(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            _write(descriptor, line, size)
        finally:
            os.close(descriptor)
    except OSError as error:
        remedy = write_remedy(error, path, "Give a path that can be written.")
        raise HistoryError(f"Cannot add to the history {path}: {error.strerror or error}. {remedy}") from error


def _write(descriptor: int, line: bytes, size: int) -> None:
    """All of a line, or nothing of it where the disk is full."""
    try:
        if os.write(descriptor, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def read(paths: Iterable[Path]) -> list[Record]:
    """The records of several files, the oldest first; one that stands in two of them counts once.

    Raises `HistoryError` for the first line that is no record, and for a file that cannot be read.
    """
    found = {json.dumps(record.to_json()): record for path in paths for record in _records(path)}
    return sorted(found.values(), key=lambda record: record.when)


def _records(path: Path) -> Iterator[Record]:
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    place = Place(str(path), number, HistoryError, _DAMAGED, "Keep the lines of both sides.")
                    yield from_json(parse(line.rstrip(b"\r\n"), place), place)
    except OSError as error:
        raise HistoryError(
            f"Cannot read the history {path}: {error.strerror or error}. Name a file that `--history` wrote."
        ) from error
