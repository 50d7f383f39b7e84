"""Git worktrees that live as long as a block, and the sweeping up of those whose process was killed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_traincheck.launch.git import GitError, git
from pytest_traincheck.launch.submodules import fill_submodules
from pytest_traincheck.scratch import (
    PREFIX,
    ScratchError,
    dead_directories,
    lock_dead,
    remove,
    scratch_directory,
)

_KIND = "worktree"
_PREFIX = f"{PREFIX}{_KIND}-"
_TRIES = 20
_PAUSE_S = 0.1


class WorktreeError(RuntimeError):
    """A worktree could not be made: why, and what to do now."""


@contextmanager
def temporary_worktree(repository: Path, commit: str, *, checkout: bool = True) -> Iterator[Path]:
    """A detached worktree of `commit` in a private temporary directory, gone when the block is left.

    Several may be open at once. A lock is held as long as the block, so that a later call can tell the worktree of
    a killed process from one in use. Hooks do not run. Submodules are those that the repository has checked out.
    Without `checkout` it has no files.
    """
    _sweep(repository)
    try:
        with scratch_directory(_KIND) as holder:
            # The tree keeps the name of the original: some projects import themselves by it.
            tree = holder / repository.name
            try:
                try:
                    _add(repository, tree, commit, "--checkout" if checkout else "--no-checkout")
                    if checkout:
                        fill_submodules(repository, tree, commit)
                except GitError as error:
                    raise WorktreeError(
                        f"git says: {error}. Check the free space in {holder.parent} and `git worktree list`."
                    ) from error
                yield tree
            finally:
                _remove(repository, tree)
    except ScratchError as error:
        raise WorktreeError(str(error)) from error


def _add(repository: Path, tree: Path, commit: str, files: str) -> None:
    """`git worktree add`, again where git has read the books on another worktree that was being made or removed.

    Git takes no lock for these: whoever lists the worktrees meanwhile may find half a record and give up.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            git(repository, "worktree", "add", "--quiet", "--detach", files, str(tree), commit)
        except GitError as error:
            if not tries_left or f"{os.sep}worktrees{os.sep}" not in str(error) or str(tree) in str(error):
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def sweep_temporary() -> None:
    """Remove what killed processes of ours left in the directory for temporary files, with git's books on worktrees."""
    for directory in dead_directories():
        for pointer in directory.glob("*/.git"):
            _forget(pointer)
        remove(directory)


def _forget(pointer: Path) -> None:
    """Remove the record of a worktree in its repository, if that points back to it."""
    try:
        if pointer.is_symlink() or not pointer.is_file():
            return
        record = Path(pointer.read_text(encoding="utf-8").removeprefix("gitdir:").strip())
        owner = Path((record / "gitdir").read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError, ValueError):
        return
    if record.parent.name == "worktrees" and owner == pointer:
        shutil.rmtree(record, ignore_errors=True)


def _remove(repository: Path, tree: Path) -> None:
    """Remove a worktree of ours and its record in the repository."""
    record = _record(repository, tree)
    try:
        git(repository, "worktree", "remove", "--force", "--force", str(tree))
    except GitError:
        # A half-made or half-deleted worktree. `git worktree prune` would forget other people's absent ones too.
        if record is not None:
            shutil.rmtree(record, ignore_errors=True)
        remove(tree)


def _record(repository: Path, tree: Path) -> Path | None:
    """The directory in which the repository keeps its books on a worktree."""
    try:
        common = repository / git(repository, "rev-parse", "--git-common-dir")
    except GitError:
        return None
    for pointer in (common / "worktrees").glob("*/gitdir"):
        try:
            if Path(pointer.read_text(encoding="utf-8").strip()).parent == tree:
                return pointer.parent
        except (OSError, UnicodeDecodeError):
            continue
    return None


def _sweep(repository: Path) -> None:
    """Remove the worktrees of ours that a killed process left behind."""
    try:
        listing = git(repository, "worktree", "list", "--porcelain")
    except GitError:
        return
    for line in listing.splitlines():
        tree = Path(line.removeprefix("worktree "))
        if not line.startswith("worktree ") or not tree.parent.name.startswith(_PREFIX):
            continue
        # Without its lock file it may belong to a process that sees another temporary directory.
        lock = lock_dead(tree.parent)
        if lock is not None:
            _remove(repository, tree)
            remove(tree.parent)
            os.close(lock)
