"""Reads one process directory of a trace: `meta.json`, `symbols.jsonl`, `events.bin`, `sketches.bin`.

A process that was killed leaves files that end anywhere; they are read to the last whole row. Anything else that the
probe would not have written is one error that names the file: a trace may come from elsewhere, or lie on a disk that
failed, and what is read here is indexed, allocated and followed without another look.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pytest_traincheck.trace.columns import Columns, Rows
from pytest_traincheck.trace.continued import Source
from pytest_traincheck.trace.errors import TraceError, damaged
from pytest_traincheck.trace.format import FORMAT, SKETCH
from pytest_traincheck.trace.gone import gone_rows
from pytest_traincheck.trace.rows import checked_events, checked_sketches, parse_rows, read_events
from pytest_traincheck.trace.schema import wrong_meta
from pytest_traincheck.trace.stretch import Stretch
from pytest_traincheck.trace.symbols import Tables, parse_symbols


@dataclass(frozen=True)
class RawTrace:
    """What one process left: its description, its symbols by kind and id, and its events in the order of `seq`."""

    path: Path
    meta: Mapping[str, Any]
    symbols: Tables
    events: Columns
    stretch: Stretch | None = None
    """Set where the events are the first of a long training and some later ones."""
    until: int | None = None
    """Number of the last event, where later ones are left out."""
    gone: int = 0
    """Rows that were let go while the process was watched."""
    joins: tuple[int, ...] = ()
    """Times behind which another process goes on with what the one before it did."""
    sources: tuple[Source, ...] = ()
    """Where the sketches of several processes lie; those of one lie at its path."""

    @property
    def whole(self) -> bool:
        """Whether the process says that it ended in an orderly way and lost nothing, so that nothing may be missing."""
        return _whole(self.meta)


def read_process(path: Path) -> RawTrace:
    """Reads one process directory.

    Raises:
        TraceError: a file is missing, damaged or of a newer format, or fewer rows are there than were written.
    """
    meta = read_meta(path / "meta.json")
    gone = gone_rows(path)
    whole = _whole(meta) and gone[0] == gone[1]
    written = bool(meta.get("events", 0)) and whole
    symbols_file, events_file = path / "symbols.jsonl", path / "events.bin"
    # Rows before symbols: of a run that still goes on, every row that is read has its symbols then.
    rows = _events(events_file, gone, needed=written, whole=whole)
    symbols = parse_symbols(_content(symbols_file, needed=written), symbols_file, whole=whole)
    if whole and len(rows) != meta.get("events", len(rows)):
        raise damaged(events_file, f"it has {len(rows)} rows, and the process wrote {meta['events']}")
    return RawTrace(
        path, meta, symbols, checked_events(rows, symbols, events_file, whole=whole), gone=gone[1] - gone[0]
    )


def read_sketches(raw: RawTrace) -> Rows:
    """The rows of `sketches.bin` in the order they were written; none where the file is missing.

    Raises:
        TraceError: the file is damaged.
    """
    whole = raw.whole and raw.until is None and raw.stretch is None
    parts = []
    for source in raw.sources or (Source(raw.path),):
        path = source.path / "sketches.bin"
        rows = parse_rows(_content(path, needed=False), SKETCH, path, whole=whole)
        moved = rows if source.splice is None else source.splice.sketches(rows)
        parts.append(checked_sketches(moved, raw.symbols, path, whole=whole))
    found = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if raw.stretch is not None:
        found = found[raw.stretch.holds(found["at"])]
    return found if raw.until is None else found[found["at"] <= raw.until]


def _whole(meta: Mapping[str, Any]) -> bool:
    lost = meta.get("lost_events") or meta.get("probe_error_count") or meta.get("probe_errors")
    return bool(meta.get("finished")) and not lost


def has_rows(path: Path) -> bool:
    """Whether a process directory holds events at all."""
    try:
        return (path / "events.bin").stat().st_size > 0
    except OSError:
        return False


def read_meta(path: Path) -> Mapping[str, Any]:
    try:
        meta = json.loads(_content(path, needed=True))
    except (ValueError, RecursionError) as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(f"the trace description cannot be read: {path}: {error}; collect the run again") from error
    if not isinstance(meta, dict) or type(meta.get("format")) is not int:
        raise TraceError(f"the trace description has no format number: {path}; collect the run again")
    if meta["format"] > FORMAT:
        raise TraceError(
            f"the trace has format {meta['format']}, this version reads up to {FORMAT}: {path}; "
            "use the version of pytest-traincheck that recorded it"
        )
    if wrong := wrong_meta(meta):
        raise damaged(path, f"`{wrong}` is of the wrong kind")
    return meta


def _content(path: Path, *, needed: bool) -> bytes:
    """The bytes of a file; none where it is missing and not `needed`."""
    with _opened(path, needed=needed) as stream:
        return stream.read()


def _events(path: Path, gone: tuple[int, int], *, needed: bool, whole: bool) -> Columns:
    """The rows of `events.bin` but those that are gone; none where it is missing and not `needed`."""
    with _opened(path, needed=needed) as stream:
        return read_events(stream, path, gone, whole=whole)


@contextmanager
def _opened(path: Path, *, needed: bool) -> Iterator[BinaryIO]:
    """A file to read; an empty one where it is missing and not `needed`."""
    try:
        # A pipe or a device would block or never end, so look before opening.
        if path.is_file():
            with path.open("rb") as stream:
                yield stream
            return
        if path.exists() or path.is_symlink():
            raise damaged(path, "it is not a file")
    except OSError as error:
        raise TraceError(
            f"a file of the trace cannot be read: {path}: {error.strerror or error}; check its permissions"
        ) from error
    if needed:
        raise damaged(path, "it is missing")
    yield BytesIO()
