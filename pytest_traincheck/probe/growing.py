"""Files that are written through memory, so that what was written outlives a process that is killed.

A descriptor is open only while a file grows. A program may close every descriptor it does not know (a daemon does), and
the next file that it opens then has the number of one of ours: what holds no descriptor cannot write into that file.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from pathlib import Path
from typing import Any

_LIBRARY: Any = ctypes.CDLL(None, use_errno=True)
_LIBRARY.mmap.restype = ctypes.c_void_p
_LIBRARY.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_LIBRARY.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_FAILED = ctypes.c_void_p(-1).value


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

    @property
    def address(self) -> int:
        """Where `memory` begins."""
        return self._address

    def grow(self) -> None:
        """Make room for another chunk. Raises `OSError` where the disk has none, or the file is not ours any more."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if self._identity is None else 0)
        descriptor = os.open(self.path, flags, 0o644)
        try:
            found = os.fstat(descriptor)
            if self._identity is None:
                self._identity = found.st_dev, found.st_ino
            elif self._identity != (found.st_dev, found.st_ino):
                raise OSError(errno.ESTALE, "another file has taken its place", str(self.path))
            capacity = self.capacity + self._chunk
            # Without real blocks behind it, a full disk would turn a store into the mapping into SIGBUS.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, self.capacity, self._chunk)
            else:
                os.pwrite(descriptor, bytes(self._chunk), self.capacity)
            access = mmap.PROT_READ | mmap.PROT_WRITE
            address = _LIBRARY.mmap(None, capacity, access, mmap.MAP_SHARED, descriptor, 0)
            if address in (None, _FAILED):
                raise OSError(ctypes.get_errno(), "it cannot be mapped into memory", str(self.path))
        finally:
            os.close(descriptor)
        self._unmap()
        self._address, self.capacity = address, capacity
        self.memory = (ctypes.c_char * capacity).from_address(address)

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

    def _unmap(self) -> None:
        if self._address:
            self.memory = None
            _LIBRARY.munmap(self._address, self.capacity)
            self._address = 0
