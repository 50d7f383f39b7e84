"""Several files of a store replaced as one: all of them or none, whenever the process is killed.

What is written goes into a directory of its own first. Giving that directory its final name is the one step by which
everything is decided: killed before it, the store is as it was; killed after it, whoever opens the store next moves the
rest of the files to their places.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from pytest_traincheck.atomic import make_directory, replace_file, sync_directory, write_new

PENDING = ".traincheck-pending"
"""Directory in the store with files that are as good as written."""

_UNDECIDED = ".traincheck-staging-"
_NUMBERS = ".npz"
_WRITTEN = (".jsonl", _NUMBERS)
"""How the names of what a refresh writes end. A golden that a user has named otherwise is written by itself."""


def replace_all(store: Path, files: Mapping[Path, bytes]) -> None:
    """Make `files`, all of them in the directory `store`, the content of the store in one step.

    Two processes must not do so at once. Raises `OSError`; the store is as it was then.
    """
    make_directory(store)
    settle(store)
    for left in store.glob(f"{_UNDECIDED}*"):
        shutil.rmtree(left, ignore_errors=True)
    # What a link in the store points to may lie on another file system, to which nothing can be moved in one step.
    inside = {path: data for path, data in files.items() if _is_finished_by_others(path, store)}
    apart = {path: data for path, data in files.items() if path not in inside}
    if len(inside) > 1:
        _replace_together(store, inside)
    else:
        apart.update(inside)
    for path in sorted(apart, key=_numbers_first):
        replace_file(path, apart[path])


def _replace_together(store: Path, files: Mapping[Path, bytes]) -> None:
    staging = store / f"{_UNDECIDED}{os.getpid()}-{secrets.token_hex(4)}"
    staging.mkdir()
    try:
        for path, data in files.items():
            _stage(staging / path.name, path, data)
        sync_directory(staging)
        staging.rename(store / PENDING)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    sync_directory(store)
    settle(store)


def settle(store: Path) -> None:
    """Finish what a process that was killed had decided but not done. Raises `OSError`."""
    pending = store / PENDING
    if not pending.is_dir():
        return
    for staged in sorted(pending.iterdir(), key=_numbers_first):
        if staged.is_symlink() or not staged.is_file() or staged.suffix not in _WRITTEN:
            raise OSError(errno.EINVAL, "it holds what no refresh has written", str(staged))
        target = _target(store / staged.name)
        # Who made this directory is not known, so it is followed nowhere out of the store.
        staged.replace(target if target.parent == store.resolve() else store / staged.name)
    pending.rmdir()
    sync_directory(store)


def _is_finished_by_others(path: Path, store: Path) -> bool:
    """Whether `settle` moves a file of this name to its place."""
    return path.suffix in _WRITTEN and _target(path).parent == store.resolve()


def _numbers_first(path: Path) -> tuple[bool, str]:
    """The order in which files are written: numbers of a rule that is not in the golden yet are not looked at."""
    return path.suffix != _NUMBERS, path.name


def _target(path: Path) -> Path:
    """A link in the store stays a link: what it points to is replaced."""
    return path.resolve()


def _stage(staged: Path, path: Path, data: bytes) -> None:
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    write_new(staged, data, like=path)
