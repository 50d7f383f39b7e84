"""Files that are either wholly written or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Make `data` the content of `path` in one step; a reader sees the old content or the new, never a part.

    Creates missing parent directories. Keeps the permissions of a file that exists.
    Raises `OSError` when the directory or the file cannot be written; nothing is left behind then.
    """
    replace_files({path: data})


def replace_files(files: Mapping[Path, bytes]) -> None:
    """Make new content of several files, as `replace_file` does for one, in the order given.

    All content is on the disk before the first file gets its name, so what usually fails - a full disk, a directory
    that cannot be written - leaves all of them as they were. Raises `OSError`.
    """
    written: list[tuple[Path, Path]] = []
    try:
        for path, data in files.items():
            # A link in the store stays a link: what it points to is replaced.
            target = path.resolve()
            make_directory(target.parent)
            written.append((_temporary(target), target))
            _write(*written[-1], data)
        for temporary, target in written:
            temporary.replace(target)
    except BaseException:
        for temporary, _ in written:
            temporary.unlink(missing_ok=True)
        raise
    for directory in {target.parent for _, target in written}:
        _sync_directory(directory)


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")


def _write(temporary: Path, target: Path, data: bytes) -> None:
    mode = stat.S_IMODE(target.stat().st_mode) if target.is_file() else None
    # 0o666 less the umask, as for any file the user creates; `tempfile` would make it private.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    if mode is not None:
        temporary.chmod(mode)


def make_directory(directory: Path) -> None:
    """Create a directory and its parents where they are missing. Raises `OSError`."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        # "File exists" would puzzle a reader: it is the directory that cannot be made.
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory)) from None


def _sync_directory(directory: Path) -> None:
    # Some file systems refuse to sync a directory; the content is safe without it, only the name may be late.
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
