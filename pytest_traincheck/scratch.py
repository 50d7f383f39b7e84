"""Temporary directories that tell whether their process still lives.

A process that is killed cannot clean up, so whoever comes next does. It removes only what is provably ours and dead:
a directory of this user, with our prefix, whose lock file has our text and is locked by nobody.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_traincheck.input_error import InputError

PREFIX = "traincheck-"
LOCK = ".lock"
_TEXT = b"A process of pytest-traincheck holds a lock on this file as long as it needs the directory.\n"


class ScratchError(InputError, ValueError):
    """No temporary directory can be made: why, and what to do now."""


@contextmanager
def scratch_directory(kind: str = "") -> Iterator[Path]:
    """A private temporary directory, removed when the block is left; its only content is a lock file.

    Its name begins with `traincheck-` and the `kind`. Raises `ScratchError`.
    """
    place = ""
    try:
        place = tempfile.gettempdir()
        directory = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-" if kind else PREFIX)).resolve()
    except OSError as error:
        reason = error.strerror or error
        raise ScratchError(
            f"No temporary directory can be made{f' in {place}' if place else ''}: {reason}. "
            "Make room there, or set TMPDIR to a directory that can be written."
        ) from error
    lock = None
    try:
        try:
            lock = _lock_new(directory)
        except OSError as error:
            raise ScratchError(
                f"The temporary directory {directory} cannot be written: {error.strerror or error}. "
                "Make room there, or set TMPDIR to a directory that can be written."
            ) from error
        yield directory
    finally:
        remove(directory)
        if lock is not None:
            os.close(lock)


def dead_directories(place: Path | None = None) -> Iterator[Path]:
    """The directories in `place` (that for temporary files unless given) whose process was killed.

    Each is locked until the next one is asked for, so that two processes do not clean up at once. Never raises.
    """
    try:
        entries = sorted((place or Path(tempfile.gettempdir())).glob(f"{PREFIX}*"))
    except OSError:
        return
    for directory in entries:
        lock = lock_dead(directory)
        if lock is not None:
            try:
                yield directory
            finally:
                os.close(lock)


def lock_dead(directory: Path) -> int | None:
    """An open lock on a directory of ours whose process has gone; None for every other one. The caller closes it."""
    try:
        status = directory.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return None
        descriptor = os.open(directory / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode) and os.read(descriptor, len(_TEXT) + 1) == _TEXT:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def remove(directory: Path) -> None:
    """Remove a directory and all below it, without following links, also what its owner may not write. Never raises.

    A process that is still dying may write meanwhile; what is left then is for the next sweep, or the system's.
    """
    shutil.rmtree(directory, ignore_errors=True)
    if not directory.is_dir():
        return
    for path, _, _ in os.walk(directory):
        with suppress(OSError):
            Path(path).chmod(0o700)
    shutil.rmtree(directory, ignore_errors=True)


def _lock_new(directory: Path) -> int:
    """Locked before it has its name: a lock file that is seen and free belongs to nobody any more."""
    fresh = directory / f"{LOCK}.new"
    descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, _TEXT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            # Some network file systems have no locks. Without one the directory is never taken for a dead one.
            if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP):
                return descriptor
            raise
        fresh.rename(directory / LOCK)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
