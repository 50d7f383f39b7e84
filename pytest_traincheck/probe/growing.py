"""Files that are written through memory, so that what was written outlives a process that is killed.

A descriptor is open only while a file grows. A program may close every descriptor it does not know (a daemon does), and
the next file that it opens then has the number of one of ours: what holds no descriptor cannot write into that file.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any

_LIBRARY: Any = ctypes.CDLL(None, use_errno=True)
_LIBRARY.mmap.restype = ctypes.c_void_p
_LIBRARY.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_LIBRARY.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_FAILED = ctypes.c_void_p(-1).value


def _write_zeros(descriptor: int, size: int, offset: int) -> None:
    zeros = memoryview(bytes(size))
    while zeros:
        written = os.pwrite(descriptor, zeros, offset)
        zeros, offset = zeros[written:], offset + written


class GrowingFile:
    """A file that is made here and appended to. Its methods are not for two threads at once.

    `capacity` and `size` are in bytes; the file is as long as its capacity, and ends in zeros, until it is closed.
    """

    def __init__(self, path: Path, chunk: int) -> None:
        """`chunk`: by how many bytes, a multiple of the page size, it grows. Raises `OSError` as `grow` does."""
        self.path = path
        self.capacity = 0
        self.size = 0
        self.memory: Any = None
        """A writable buffer of `capacity` bytes."""
        self._chunk = chunk
        self._address = 0
        self._identity: tuple[int, int] | None = None
        self.grow()

    def hand_over(self, taker: Callable[..., Any], failed: Callable[[OSError], None]) -> Any:
        """What maps the file from now on, and makes it grow: made of the path, its identity, address and sizes in
        bytes, and whom to tell the number of an error. What is left to do here is `close`, when `size` is known.
        """

        def told(number: int) -> None:
            failed(self._trouble(number))

        taken = taker(os.fsencode(self.path), self._identity, self._address, self.capacity, self._chunk, told)
        self._address, self.memory = 0, None
        return taken

    def grow(self) -> None:
        """Make room for another chunk. Raises `OSError` where the disk has none, or the file is not ours any more."""
        # What a signal handler raises leaves no descriptor open: a file object closes it when it goes.
        with FileIO(self.path, "x+" if self._identity is None else "r+") as file:
            descriptor = file.fileno()
            found = os.fstat(descriptor)
            if self._identity is None:
                self._identity = found.st_dev, found.st_ino
            elif self._identity != (found.st_dev, found.st_ino):
                raise self._trouble(errno.ESTALE)
            capacity = self.capacity + self._chunk
            # Without real blocks behind it, a full disk would turn a store into the mapping into SIGBUS. A page that
            # the first store into it has to make costs a step more than many that are written as zeros in one go.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, self.capacity, self._chunk)
            _write_zeros(descriptor, self._chunk, self.capacity)
            access = mmap.PROT_READ | mmap.PROT_WRITE
            address = _LIBRARY.mmap(None, capacity, access, mmap.MAP_SHARED, descriptor, 0)
            if address in (None, _FAILED):
                raise self._trouble(ctypes.get_errno())
        memory = (ctypes.c_char * capacity).from_address(address)
        old, size = self._address, self.capacity
        # No signal handler runs between these, so nobody ever writes where nothing is mapped any more.
        self._address, self.capacity, self.memory = address, capacity, memory
        if old:
            _LIBRARY.munmap(old, size)

    def append(self, data: bytes) -> None:
        """Write at the end. Raises `OSError` as `grow` does; nothing is written then."""
        begin = self.size
        while begin + len(data) > self.capacity:
            self.grow()
        ctypes.memmove(self._address + begin, data, len(data))
        self.size = begin + len(data)

    def close(self) -> None:
        """Cut the file to what was written. Raises `OSError`."""
        self._unmap()
        found = os.stat(self.path)  # noqa: PTH116 - its identity is asked for as above
        if self._identity == (found.st_dev, found.st_ino):
            os.truncate(self.path, self.size)

    def abandon(self) -> None:
        """Let go of the file without touching it."""
        self._unmap()

    def _trouble(self, number: int) -> OSError:
        what = "another file has taken its place" if number == errno.ESTALE else os.strerror(number)
        return OSError(number, what, str(self.path))

    def _unmap(self) -> None:
        old, self._address, self.memory = self._address, 0, None
        if old:
            _LIBRARY.munmap(old, self.capacity)
