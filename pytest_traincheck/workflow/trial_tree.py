"""A tree in which a script may be tried that nobody knows yet: what it writes there is lost, and nothing of the user's.

That is a worktree of the last commit where it has all that matters, and a copy of the files otherwise. Untracked data
is copied into either: a link would let the script write over the data themselves.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pytest_traincheck.launch.link import check_links, link_into
from pytest_traincheck.launch.sides import CheckedOutSide, open_side, resolve_side
from pytest_traincheck.launch.untracked import CopyOf
from pytest_traincheck.scratch import scratch_directory
from pytest_traincheck.workflow.starting import Place

LARGEST = 1 << 30
"""Bytes that are copied at most; what is larger is linked, or run in place."""
_MOST = 20_000


class Where(Enum):
    """Where a script is tried."""

    WORKTREE = "in a worktree of the last commit"
    COPY = "in a copy of the tree"
    PLACE = "in place"


@dataclass(frozen=True)
class TrialTree:
    """The tree of a try, and the user's."""

    side: CheckedOutSide
    here: CheckedOutSide
    where: Where


@contextmanager
def trial_tree(place: Place, link: tuple[str, ...], where: Where) -> Iterator[TrialTree]:
    """A tree with these untracked paths in it, gone at the end of the block.

    What is too large for a copy is tried in place. Raises `SideError` when no worktree can be made.
    """
    with ExitStack() as stack:
        here = stack.enter_context(open_side(resolve_side(str(place.root), place.root)))
        if where is Where.WORKTREE:
            side = stack.enter_context(open_side(resolve_side("HEAD", place.root)))
            assert side.tree is not None
            check_links(link, place.root)
            _bring(side.tree, link, side.root)
            yield TrialTree(side, here, where)
            return
        files = [place.root / name for name in place.files]
        if where is Where.PLACE or _size(files) > LARGEST or len(files) > _MOST:
            yield TrialTree(here, here, Where.PLACE)
            return
        copy = stack.enter_context(scratch_directory("try")) / place.root.name
        for name in place.files:
            _copy(place.root / name, copy / name)
        copy.mkdir(exist_ok=True)
        tree = CopyOf(copy, place.root)
        _bring(tree, link, copy)
        yield TrialTree(CheckedOutSide(copy, copy, tree=tree), here, where)


def _bring(tree: CopyOf, names: Iterable[str], top: Path) -> None:
    """Copy untracked paths into a tree; those that are too large are linked."""
    for name in names:
        source, target = tree.original / name, tree.copy / name
        if target.exists():
            continue
        if _size(_below(source)) > LARGEST:
            link_into(tree, [name], top)
        elif source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            _copy(source, target)


def _below(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
    for directory, _, files in os.walk(path):
        yield from (Path(directory) / name for name in files)


def _size(files: Iterable[Path]) -> int:
    total = 0
    for file in files:
        if total > LARGEST:
            break
        total += file.lstat().st_size if file.is_file() else 0
    return total


def _copy(source: Path, target: Path) -> None:
    if source.is_file() or source.is_symlink():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
