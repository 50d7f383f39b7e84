"""Files of one process: rows into `events.bin` and `sketches.bin`, lines into `symbols.jsonl`, and `meta.json`."""

from __future__ import annotations

import os
import shutil
import struct
import threading
from collections.abc import Iterator
from json import dumps
from pathlib import Path
from time import time, time_ns
from typing import TYPE_CHECKING, Any

from .growing import GrowingFile
from .theirs import is_theirs

if TYPE_CHECKING:
    from .context import Call
    from .sketch import Sketch

ROW = struct.Struct("<BBHIIIIIIIIIHBBIQd")
SKETCH_ROW = struct.Struct("<IIIIIIQ6d")
_HEAD, _FLAGS, _VALUE = struct.Struct("<BBHI"), struct.Struct("<B"), struct.Struct("<d")
"""How a row begins, its flags, and the number that it ends in."""
CALL, CHANGE, MEASURE = 1, 2, 3
_NOTHING = b"\0"
"""How room begins in which there is no row yet."""
_NONFINITE = 8
"""The flag of a call, as in `context`."""
FORMAT = 1

_pack, _SIZE = ROW.pack_into, ROW.size
_CHUNK = (1 << 14) * ROW.size
_SMALL_CHUNK = 1 << 16
_MAX_ERRORS = 20
_MAX_LEFT_OUT = 50
_MOST = (1 << 32) - 1


class TraceWriter:
    """Writes the trace of this process below `run_dir`. Never raises after construction: failures are counted."""

    core = "python"
    """What writes the rows."""

    def __init__(self, run_dir: Path) -> None:
        self.directory = run_dir / f"proc-{os.getpid()}-{time_ns()}"
        self.directory.mkdir(parents=True)
        self.meta: dict[str, Any] = {}
        self._rows = 0
        self._lost = 0
        self.started = 0.0
        self.error_count = 0
        self.errors: list[dict[str, str]] = []
        self.left_out: dict[str, int] = {}
        """What was not looked at, and how often."""
        self.closed = False
        # A signal handler of the user's may call torch while a row is being written, in the same thread.
        self._lock = threading.RLock()
        self._symbols = GrowingFile(self.directory / "symbols.jsonl", _SMALL_CHUNK)
        self._events = GrowingFile(self.directory / "events.bin", _CHUNK)
        self._sketches: GrowingFile | None = None
        self._room = self._events.capacity // _SIZE

    @property
    def rows(self) -> int:
        """How many were written."""
        return self._rows

    @property
    def lost(self) -> int:
        """How many rows, symbols and sketches there was no room for."""
        return self._lost

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

        Drawing the number and writing the row are one step under the lock, so rows are in the order of `end`. A signal
        handler may raise in between, or behind: then there is no row, or one that counts.
        """
        with self._lock:
            if (row := self._rows) < self._room or self._grow():
                end = next(clock)
                try:
                    _pack(
                        self._events.memory, row * _SIZE, CALL, flags, thread, call.seq, end, call.parent,
                        call.number, call.ctx, call.args, ret, call.src, call.mod, call.opt, 0, 0, 0, digest, value,
                    )  # fmt: skip
                finally:
                    self._rows = row + (self._events.memory[row * _SIZE] != _NOTHING)
            else:
                self._lost += 1

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
            if (row := self._rows) < self._room or self._grow():
                seq = next(clock)
                try:
                    _pack(
                        self._events.memory, row * _SIZE, CHANGE, 0, thread, seq, seq, parent,
                        subject, ctx, 0, 0, src, 0, 0, old, new, 0, digest, value,
                    )  # fmt: skip
                finally:
                    self._rows = row + (self._events.memory[row * _SIZE] != _NOTHING)
            else:
                self._lost += 1

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
            if (row := self._rows) < self._room or self._grow():
                seq = next(clock)
                try:
                    _pack(
                        self._events.memory, row * _SIZE, MEASURE, 0, thread, seq, seq, about[0],
                        subject, about[1], var, 0, about[2], about[3], opt, 0, 0, 0, digest, value,
                    )  # fmt: skip
                finally:
                    self._rows = row + (self._events.memory[row * _SIZE] != _NOTHING)
            else:
                self._lost += 1

    def complete(self, seq: int, value: float, finite: bool) -> None:
        """Complete the row of the call that began at `seq`: its number, NaN for none, and whether what it returned is
        finite.
        """
        with self._lock:
            if self.closed:
                return
            for row in range(self._rows - 1, -1, -1):
                kind, flags, _, begun = _HEAD.unpack_from(self._events.memory, row * _SIZE)
                if begun == seq and kind == CALL:
                    if not finite:
                        _FLAGS.pack_into(self._events.memory, row * _SIZE + 1, flags | _NONFINITE)
                    if value == value:
                        _VALUE.pack_into(self._events.memory, row * _SIZE + _SIZE - _VALUE.size, value)
                    return

    def sketch(self, clock: Iterator[int], call: int, slot: int, var: int, found: Sketch, faint: int) -> None:
        """Append a row to `sketches.bin` with the next number of `clock`."""
        size, digest, norm, mean, projections = found
        with self._lock:
            if self.closed:
                return
            try:
                if self._sketches is None:
                    self._sketches = GrowingFile(self.directory / "sketches.bin", _SMALL_CHUNK)
                self._sketches.append(
                    SKETCH_ROW.pack(
                        next(clock),
                        call,
                        slot,
                        var,
                        min(size, _MOST),
                        min(faint, _MOST),
                        digest,
                        norm,
                        mean,
                        *projections,
                    )
                )
            except OSError as error:
                self.error("writing sketches.bin", error)
                self._lost += 1

    def _grow(self) -> bool:
        """Make room for another chunk; false when the disk has none or the trace was closed."""
        if self.closed:
            return False
        try:
            self._events.grow()
        except OSError as error:
            if not self.lost:
                self.error("writing events.bin", error)
            return False
        self._room = self._events.capacity // _SIZE
        return True

    def symbol(self, record: dict[str, Any]) -> None:
        """Append one line to `symbols.jsonl`."""
        line = (dumps(record, separators=(",", ":")) + "\n").encode()
        with self._lock:
            if self.closed:
                return
            try:
                self._symbols.append(line)
            except OSError as error:
                self.error("writing symbols.jsonl", error)
                self._lost += 1

    def error(self, where: str, error: BaseException) -> None:
        """Count a failure of the probe and keep the first few. Raises `error` itself when it is the user's."""
        if is_theirs(error):
            raise error
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
            "core": self.core,
            "events": self.rows,
            "lost_events": self.lost,
            "probe_errors": self.errors,
            "probe_error_count": self.error_count,
            "left_out": self.left_out,
            # When this is the first half of a training, the other one begins later than that.
            **({"ended": time()} if finished else {}),
        }
        temporary = self.directory / f"meta.json.{threading.get_ident()}"
        try:
            temporary.write_text(dumps(record, indent=1), encoding="utf-8")
            temporary.replace(self.directory / "meta.json")
        except OSError as error:
            self.error("writing meta.json", error)

    def close(self, finished: bool) -> None:
        """End the trace: cut the files to what was written and say in `meta.json` whether the end was orderly."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            self._room = 0
            self._events.size = self.rows * _SIZE
            for file in self._files():
                try:
                    file.close()
                except OSError as error:
                    self.error(f"closing {file.path.name}", error)
        self.write_meta(finished)

    def abandon(self) -> None:
        """In a forked child: let go of the parent's files without touching them."""
        self.closed = True
        self._room = 0
        for file in self._files():
            file.abandon()

    def discard(self) -> None:
        """Take away the directory of a trace that nothing was written to."""
        self.abandon()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _files(self) -> list[GrowingFile]:
        return [file for file in (self._symbols, self._events, self._sketches) if file is not None]
