"""Who may write to a store: one process at a time, which holds it for as long as a refresh takes."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from pytest_traincheck.atomic import make_directory, replace_file
from pytest_traincheck.disk import write_remedy
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.transaction import settle
from pytest_traincheck.text import one_line

LOCK_NAME = ".traincheck.lock"
"""File that writers lock in a store that is in no git repository; it stays behind, empty."""

_HOLDER_SUFFIX = ".holder"
"""Ends the name of the file beside the lock that says which refresh holds it; gone when none does."""

WRITE_TIMEOUT_S = 60.0
REFRESH_TIMEOUT_S = 1800.0
_PATH_LIMIT = 8192


def lock_path(store: Path) -> Path:
    """The file that writers of a store lock: in the directory of its git repository, where nobody commits it, and in
    the store itself where it is in none, or git's directory cannot be written.
    """
    place = store.resolve()
    found = _git_directory(place)
    if found is None or not os.access(found, os.W_OK | os.X_OK):
        return store / LOCK_NAME
    key = hashlib.blake2b(os.fsencode(place), digest_size=8).hexdigest()
    return found / f"traincheck-{key}.lock"


def holder_path(store: Path) -> Path:
    """The file that says which refresh holds the lock of a store."""
    lock = lock_path(store)
    return lock.with_name(lock.name + _HOLDER_SUFFIX)


@contextmanager
def writing(store: Path) -> Iterator[None]:
    """Hold the lock of writers. Raises `OSError` and, where another process does not let go of it, `TimeoutError`."""
    make_directory(store)
    lock = filelock.FileLock(lock_path(store))
    try:
        lock.acquire(timeout=WRITE_TIMEOUT_S)
    except filelock.Timeout as error:
        raise TimeoutError(f"{_holder(store)} has held {lock.lock_file} for {WRITE_TIMEOUT_S:.0f} seconds") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def refreshing(store: Path, what: str, waiting: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock for the whole of a refresh, so that each begins with what the last one left.

    Writers inside must not take it again.

    `what` tells others who holds it. `waiting` is called once, with what the other process says of itself, when there
    is one. Raises `GoldenError` when that one does not end, or the store cannot be written.
    """
    lock = filelock.FileLock(lock_path(store))
    try:
        make_directory(store)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            waiting(_holder(store))
            lock.acquire(timeout=REFRESH_TIMEOUT_S)
        settle(store)
    except filelock.Timeout as error:
        raise GoldenError(
            f"Cannot refresh the goldens in {store}: {_holder(store)} has been refreshing them for more than "
            f"{REFRESH_TIMEOUT_S:.0f} seconds. Wait until it is done, or end it, and run again."
        ) from error
    except OSError as error:
        raise cannot_write(store, error) from error
    holder = holder_path(store)
    try:
        now = datetime.datetime.now().astimezone()
        with contextlib.suppress(OSError):
            replace_file(holder, f"process {os.getpid()} ({what}, since {now:%H:%M:%S})\n".encode(errors="replace"))
        yield
    finally:
        with contextlib.suppress(OSError):
            holder.unlink(missing_ok=True)
        lock.release()


def cannot_write(store: Path, error: OSError) -> GoldenError:
    """The message for a store that cannot be written."""
    remedy = "Make it a writable directory, or set `store` in [tool.traincheck] to one."
    return GoldenError(
        f"The golden store {store} cannot be written: {error.strerror or error}. {write_remedy(error, store, remedy)}"
    )


def _git_directory(place: Path) -> Path | None:
    """The directory of the innermost repository or worktree around a place."""
    for directory in (place, *place.parents):
        entry = directory / ".git"
        if entry.is_dir():
            return entry if (entry / "HEAD").is_file() else None
        if entry.is_file():
            return _linked_directory(entry)
    return None


def _linked_directory(entry: Path) -> Path | None:
    """Where the `.git` file of a worktree or submodule leads."""
    try:
        with entry.open(encoding="utf-8", errors="surrogateescape") as stream:
            said = stream.read(_PATH_LIMIT)
    except OSError:
        return None
    mark, _, path = said.strip().partition(": ")
    found = entry.parent / path
    return found if mark == "gitdir" and path and "\0" not in path and (found / "HEAD").is_file() else None


def _holder(store: Path) -> str:
    try:
        with holder_path(store).open(encoding="utf-8", errors="replace") as stream:
            said = one_line(stream.read(200))
    except OSError:
        said = ""
    return said or "another process"
