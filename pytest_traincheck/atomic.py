"""Files that are either wholly written or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Make `data` the content of `path` in one step; a reader sees the old content or the new, never a part.

    Creates missing parent directories. Keeps the permissions of a file that exists.
    Raises `OSError` when the directory or the file cannot be written; nothing is left behind then.
    """
    # A link stays a link: what it points to is replaced.
    target = path.resolve()
    make_directory(target.parent)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        write_new(temporary, data, like=target)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(target.parent)


def write_new(path: Path, data: bytes, like: Path) -> None:
    """Write a file that must not exist yet, down to the disk, with the permissions of `like` where that exists."""
    mode = stat.S_IMODE(like.stat().st_mode) if like.is_file() else None
    # 0o666 less the umask, as for any file the user creates; `tempfile` would make it private.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    if mode is not None:
        path.chmod(mode)


def make_directory(directory: Path) -> None:
    """Create a directory and its parents where they are missing. Raises `OSError`."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        # "File exists" would puzzle a reader: it is the directory that cannot be made.
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory)) from None


def sync_directory(directory: Path) -> None:
    """Make the names in a directory survive a power failure, where the file system can."""
    # Some file systems refuse to sync a directory; the content is safe without it, only the name may be late.
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
