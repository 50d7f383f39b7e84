"""How often each mistake was made in this process, in a small file that survives a crash."""

from __future__ import annotations

import os
import time
from pathlib import Path

PREFIX = "mutants-"
"""How the names of these files begin."""

_WIDTH = 11
_COUNTER = f"{{:>{_WIDTH}}}"


class Tally:
    """One line for each name, `COUNT NAME`, kept up to date at every count: no exit of the process loses it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open()
        os.register_at_fork(after_in_child=self._open)

    def _open(self) -> None:
        """Begin a file of this process; a forked child counts for itself."""
        path = self._directory / f"{PREFIX}{os.getpid()}-{time.time_ns()}.txt"
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        self._end = 0
        self._lines: dict[str, tuple[int, int]] = {}

    def add(self, name: str) -> int:
        """One more of `name`; returns how many there are now."""
        offset, count = self._lines.get(name, (self._end, 0))
        count += 1
        line = f"{_COUNTER.format(count)} {name}\n".encode()
        os.pwrite(self._file, line, offset)
        if count == 1:
            self._end += len(line)
        self._lines[name] = (offset, count)
        return count


def read(directory: Path) -> dict[str, int]:
    """How often each mistake was made in all processes of a run. Lines that are no counts are left out."""
    totals: dict[str, int] = {}
    for path in sorted(directory.glob(f"{PREFIX}*.txt")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            number, _, name = line.strip().partition(" ")
            if number.isdecimal() and name:
                totals[name] = totals.get(name, 0) + int(number)
    return totals
