"""What to do about a file that cannot be written: a disk that is full needs another remedy than a wrong path."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

_FULL = {
    errno.ENOSPC: "free disk space on {}",
    errno.EDQUOT: "free disk space on {}, or have the quota raised",
    errno.EFBIG: "raise the limit of the size of files (`ulimit -f`), or free disk space on {}",
}

_ERRNO = re.compile(r"\[Errno (\d+)\]")


def full_disk(error: OSError, path: Path | None = None) -> str:
    """What to do when there is no room, as in "free disk space on /home"; empty where that is not what happened.

    `path` is what was to be written, unless the error names a file.
    """
    number = error.errno or _number_in(str(error))
    if number not in _FULL:
        return ""
    place = Path(os.fsdecode(error.filename)) if isinstance(error.filename, (str, bytes)) else path
    return _FULL[number].format(_mount_of(place) if place is not None else "the disk that is written to")


def full_disk_in(text: str, path: Path) -> str:
    """The same for an error that was kept as text, as by the probe: "OSError: [Errno 28] No space left on device"."""
    number = _number_in(text)
    return _FULL[number].format(_mount_of(path)) if number in _FULL else ""


def write_remedy(error: OSError, path: Path, otherwise: str) -> str:
    """A sentence that says what to do now: make room where there is none, `otherwise` in every other case."""
    advice = full_disk(error, path)
    return f"{advice[0].upper()}{advice[1:]}." if advice else otherwise


def _number_in(text: str) -> int:
    found = _ERRNO.search(text)
    return int(found[1]) if found else 0


def _mount_of(path: Path) -> Path:
    """Where the file system is mounted that a path lies on, or would lie on."""
    try:
        path = path.absolute()
    except OSError:
        return path  # The working directory was deleted.
    return next((place for place in (path, *path.parents) if os.path.ismount(place)), path)
