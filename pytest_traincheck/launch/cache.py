"""A directory of results that took long to make: found by key, written whole or not at all, bounded in size and age."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from pytest_traincheck.atomic import make_directory

VARIABLE = "TRAINCHECK_CACHE_DIR"
"""Environment variable that names another place for everything that is cached."""

_LOCK = ".lock"
MARK = ".traincheck-cache-entry"
"""In every entry. A directory without it is none of ours: who knows what the place of the cache was before."""

# Names that no key has: an entry is made under the first and leaves under the second.
_NEW, _OLD = ".new-", ".old-"
_ABANDONED_S = 24 * 3600.0


class CacheBusyError(RuntimeError):
    """Another process has held an entry for longer than one is prepared to wait."""


def cache_directory(kind: str) -> Path:
    """Where results of a kind are kept: below `TRAINCHECK_CACHE_DIR`, or the user's own cache directory."""
    return cache_root() / kind


def cache_root() -> Path:
    """`TRAINCHECK_CACHE_DIR`, or the user's own cache directory."""
    configured = os.environ.get(VARIABLE, "")
    root = Path(configured).expanduser() if configured else platformdirs.user_cache_path("traincheck", appauthor=False)
    return root.absolute()


@dataclass(frozen=True)
class Cache:
    """Entries are directories named by their keys (letters and digits).

    Everything that reads or writes an entry does so while it is held. What was not used for longest goes first when
    the whole grows beyond `max_bytes`; what was not used for `max_age_s` seconds goes anyway.
    """

    directory: Path
    max_bytes: int
    max_age_s: float

    @contextmanager
    def hold(self, key: str, timeout_s: float, waiting: Callable[[], None] | None = None) -> Iterator[None]:
        """Be the only process with this key for the length of the block; `waiting` is called when that takes a while.

        Raises `CacheBusyError` when another process keeps it for `timeout_s` and `OSError` when nothing can be written.
        """
        make_directory(self.directory)
        lock = FileLock(self._lock(key))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if waiting is not None:
                waiting()
            try:
                lock.acquire(timeout=timeout_s)
            except Timeout as error:
                raise CacheBusyError(
                    f"another process has held {self._lock(key)} for {timeout_s:.0f} seconds"
                ) from error
        try:
            yield
        finally:
            lock.release()

    def find(self, key: str) -> Path | None:
        """The directory of an entry, which counts as used now; None when there is none."""
        entry = self.directory / key
        if not _is_ours(entry):
            return None
        # A cache that may only be read is still one that can be read.
        with suppress(OSError):
            os.utime(entry)
        return entry

    def keep(self, key: str, fill: Callable[[Path], None]) -> Path:
        """Make an entry in one step, in place of a former one: `fill` writes into the directory that it is given.

        Raises what `fill` raises, and `OSError`; the former entry is as it was then.
        """
        new = Path(tempfile.mkdtemp(prefix=_NEW, dir=self.directory))
        try:
            (new / MARK).touch()
            fill(new)
            self.drop(key)
            entry = new.rename(self.directory / key)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        self._prune(key)
        return entry

    def drop(self, key: str) -> None:
        """Remove an entry, if there is one. Raises `OSError`."""
        entry = self.directory / key
        if not _is_ours(entry):
            return
        # Renamed first: what is half removed must not be found.
        old = Path(tempfile.mkdtemp(prefix=_OLD, dir=self.directory))
        (old / MARK).touch()
        entry.rename(old / key)
        shutil.rmtree(old, ignore_errors=True)

    def _lock(self, key: str) -> Path:
        return self.directory / f"{key}{_LOCK}"

    def _prune(self, kept: str) -> None:
        """Remove what is too old or too much, and what killed processes left half made. Never fails."""
        now = time.time()
        total = 0
        for used, entry in self._by_last_use():
            size = sum(_size(path) for path in entry.rglob("*"))
            expired = now - used > (_ABANDONED_S if entry.name.startswith((_NEW, _OLD)) else self.max_age_s)
            if entry.name != kept and (expired or total + size > self.max_bytes) and self._remove(entry):
                continue
            total += size

    def _by_last_use(self) -> list[tuple[float, Path]]:
        """All entries, the last used first."""
        found = []
        for path in self.directory.iterdir():
            with suppress(OSError):
                if _is_ours(path):
                    found.append((path.stat().st_mtime, path))
        return sorted(found, reverse=True)

    def _remove(self, entry: Path) -> bool:
        """Whether it could be removed; what another process holds stays."""
        lock = FileLock(self._lock(entry.name))
        try:
            with lock.acquire(timeout=0):
                shutil.rmtree(entry)
                # Whoever waits for the file meanwhile takes it for lost and makes another; see `filelock`.
                self._lock(entry.name).unlink(missing_ok=True)
        except (Timeout, OSError):
            return False
        return True


def _is_ours(entry: Path) -> bool:
    return not entry.is_symlink() and (entry / MARK).is_file()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0
