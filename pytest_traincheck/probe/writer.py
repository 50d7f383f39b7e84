"""Files of one process: rows into a mapped `events.bin`, lines into `symbols.jsonl`, and `meta.json`.

Rows go into a shared mapping, so that what was recorded outlives a process that is killed.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .context import Call
    from .sketch import Sketch

ROW = struct.Struct("<BBHIIIIIIIIIHBBIQd")
SKETCH_ROW = struct.Struct("<IIIIIIQ6d")
CALL, CHANGE, MEASURE = 1, 2, 3
FORMAT = 1

_pack, _SIZE = ROW.pack_into, ROW.size
_CHUNK_ROWS = 1 << 14
_MAX_ERRORS = 20
_MAX_LEFT_OUT = 50
_MOST = (1 << 32) - 1


class TraceWriter:
    """Writes the trace of this process below `run_dir`. Never raises after construction: failures are counted."""

    def __init__(self, run_dir: Path) -> None:
        self.directory = run_dir / f"proc-{os.getpid()}-{time.time_ns()}"
        self.directory.mkdir(parents=True)
        self.meta: dict[str, Any] = {}
        self.rows = 0
        self.lost = 0
        self.started = 0.0
        self.error_count = 0
        self.errors: list[dict[str, str]] = []
        self.left_out: dict[str, int] = {}
        """What was not looked at, and how often."""
        self.closed = False
        self._lock = threading.Lock()
        self._symbols = os.open(self.directory / "symbols.jsonl", _APPEND, 0o644)
        self._events = os.open(self.directory / "events.bin", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._sketches: int | None = None
        self._capacity = 0
        self._map: mmap.mmap | None = None
        self._grow()

    def call(
        self,
        clock: Iterator[int],
        thread: int,
        flags: int,
        call: Call,
        ret: int,
        digest: int,
        value: float,
    ) -> None:
        """Write the row of a call that ends now.

        Drawing the number and writing the row are one step under the lock, so rows are in the order of `end`.
        """
        with self._lock:
            if self.rows < self._capacity or self._grow():
                assert self._map is not None
                _pack(
                    self._map, self.rows * _SIZE, CALL, flags, thread, call.seq, next(clock), call.parent,
                    call.number, call.ctx, call.args, ret, call.src, call.mod, call.opt, 0, 0, 0, digest, value,
                )  # fmt: skip
                self.rows += 1
            else:
                self.lost += 1

    def change(
        self,
        clock: Iterator[int],
        thread: int,
        parent: int,
        subject: int,
        ctx: int,
        src: int,
        old: int,
        new: int,
        digest: int,
        value: float,
    ) -> None:
        """Write a change row with the next number of `clock`."""
        with self._lock:
            if self.rows < self._capacity or self._grow():
                assert self._map is not None
                seq = next(clock)
                _pack(
                    self._map, self.rows * _SIZE, CHANGE, 0, thread, seq, seq, parent,
                    subject, ctx, 0, 0, src, 0, 0, old, new, 0, digest, value,
                )  # fmt: skip
                self.rows += 1
            else:
                self.lost += 1

    def measure(
        self,
        clock: Iterator[int],
        thread: int,
        subject: int,
        parent: Call | None,
        value: float,
        digest: int,
        var: int,
        opt: int,
    ) -> None:
        """Write a measure of a call (none: outside every call) with the next number of `clock`."""
        about = (parent.seq, parent.ctx, parent.src, parent.mod) if parent is not None else (0, 0, 0, 0)
        with self._lock:
            if self.rows < self._capacity or self._grow():
                assert self._map is not None
                seq = next(clock)
                _pack(
                    self._map, self.rows * _SIZE, MEASURE, 0, thread, seq, seq, about[0],
                    subject, about[1], var, 0, about[2], about[3], opt, 0, 0, 0, digest, value,
                )  # fmt: skip
                self.rows += 1
            else:
                self.lost += 1

    def sketch(self, clock: Iterator[int], call: int, slot: int, var: int, found: Sketch, faint: int) -> None:
        """Append a row to `sketches.bin` with the next number of `clock`."""
        size, digest, norm, mean, projections = found
        with self._lock:
            if self.closed:
                return
            try:
                if self._sketches is None:
                    self._sketches = os.open(self.directory / "sketches.bin", _APPEND, 0o644)
                data = SKETCH_ROW.pack(
                    next(clock), call, slot, var, min(size, _MOST), min(faint, _MOST), digest, norm, mean, *projections
                )
                os.write(self._sketches, data)
            except OSError as error:
                self.lost += 1
                self.error("writing sketches.bin", error)

    def _grow(self) -> bool:
        """Make room for another chunk; false when the disk has none or the trace was closed."""
        if self.closed:
            return False
        size = (self._capacity + _CHUNK_ROWS) * ROW.size
        try:
            # Without real blocks behind it, a full disk would turn a store into the mapping into SIGBUS.
            os.posix_fallocate(self._events, self._capacity * ROW.size, _CHUNK_ROWS * ROW.size)
            if self._map is None:
                self._map = mmap.mmap(self._events, size)
            else:
                self._map.resize(size)
        except (OSError, ValueError, SystemError) as error:
            if not self.lost:
                self.error("writing events.bin", error)
            return False
        self._capacity += _CHUNK_ROWS
        return True

    def symbol(self, record: dict[str, Any]) -> None:
        """Append one line to `symbols.jsonl`."""
        if self.closed:
            return
        try:
            os.write(self._symbols, (json.dumps(record, separators=(",", ":")) + "\n").encode())
        except OSError as error:
            self.error("writing symbols.jsonl", error)

    def error(self, where: str, error: BaseException) -> None:
        """Count a failure of the probe and keep the first few."""
        self.error_count += 1
        if len(self.errors) < _MAX_ERRORS:
            self.errors.append({"where": where, "error": f"{type(error).__name__}: {error}"[:300]})

    def leave_out(self, what: str) -> None:
        """Note that something was not looked at, which is no failure."""
        if what in self.left_out or len(self.left_out) < _MAX_LEFT_OUT:
            self.left_out[what] = self.left_out.get(what, 0) + 1

    def write_meta(self, finished: bool = False) -> None:
        """Rewrite `meta.json` in one step, so that a reader sees the old one or the new one."""
        record = {
            "format": FORMAT,
            **self.meta,
            "finished": finished,
            "events": self.rows,
            "lost_events": self.lost,
            "probe_errors": self.errors,
            "probe_error_count": self.error_count,
            "left_out": self.left_out,
        }
        temporary = self.directory / f"meta.json.{threading.get_ident()}"
        try:
            temporary.write_text(json.dumps(record, indent=1), encoding="utf-8")
            temporary.replace(self.directory / "meta.json")
        except OSError as error:
            self.error("writing meta.json", error)

    def close(self, finished: bool) -> None:
        """End the trace: cut `events.bin` to what was written and say in `meta.json` whether the end was orderly."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            try:
                if self._map is not None:
                    self._map.close()
                    self._map = None
                self._capacity = 0
                os.ftruncate(self._events, self.rows * ROW.size)
            except OSError as error:
                self.error("closing events.bin", error)
        self.write_meta(finished)
        self._release()

    def abandon(self) -> None:
        """In a forked child: let go of the parent's files without touching them."""
        self.closed = True
        self._capacity = 0
        if self._map is not None:
            self._map.close()
            self._map = None
        self._release()

    def _release(self) -> None:
        for descriptor in (self._symbols, self._events, self._sketches):
            try:
                if descriptor is not None:
                    os.close(descriptor)
            except OSError as error:
                self.error("closing files", error)


_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
