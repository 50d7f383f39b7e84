"""Gives the disk back what was judged of a trace that grows: the file stays as long as it is, with a hole in it.

The process that writes the trace knows nothing of that: it writes on at the end.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.gone import note_gone

LEAST = 1 << 22
"""Bytes that it is worth the while to give back."""
_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # of `fallocate(2)`
_SIZE = fmt.EVENT.itemsize


def let_go(process: Path, first: int, last: int, known: int) -> int:
    """Give back rows `first` to `last` (without it) of a process; those up to `known` were given back before.

    Returns up to where rows are given back now. A file system without holes keeps them, which is no error.
    """
    begin = max(first, known)
    if (last - begin) * _SIZE < LEAST:
        return known
    # Said before it is true: rows that are there and not looked at do no harm.
    note_gone(process, first, last)
    descriptor = os.open(process / "events.bin", os.O_RDWR | os.O_CLOEXEC)
    try:
        _fallocate(descriptor, begin * _SIZE, (last - begin) * _SIZE)
    finally:
        os.close(descriptor)
    return last


def _fallocate(descriptor: int, offset: int, length: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    library.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    if library.fallocate(descriptor, _KEEP_SIZE | _PUNCH_HOLE, offset, length):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "events.bin")
