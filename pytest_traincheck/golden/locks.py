"""Who may write to a store: one process at a time, which holds it for as long as a refresh takes."""

from __future__ import annotations

import contextlib
import datetime
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
"""File in the store that writers lock; it stays behind, empty, and belongs into `.gitignore`."""

HOLDER_NAME = ".traincheck.holder"
"""Says which refresh holds the lock; gone when none does."""

WRITE_TIMEOUT_S = 60.0
REFRESH_TIMEOUT_S = 1800.0


@contextmanager
def writing(store: Path) -> Iterator[None]:
    """Hold the lock of writers. Raises `OSError` and, where another process does not let go of it, `TimeoutError`."""
    make_directory(store)
    lock = filelock.FileLock(store / LOCK_NAME)
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
    lock = filelock.FileLock(store / LOCK_NAME)
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
    holder = store / HOLDER_NAME
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


def _holder(store: Path) -> str:
    try:
        with (store / HOLDER_NAME).open(encoding="utf-8", errors="replace") as stream:
            said = one_line(stream.read(200))
    except OSError:
        said = ""
    return said or "another process"
