"""Untracked files of the working tree, seen from a worktree: `link = ["data"]`.

Without a superuser nothing can be mounted read-only, so a directory is made again in the worktree with a link for each
of its files: what a run creates, removes or renames there goes with the worktree. What it writes *into* a linked file
reaches the original; such changes are found by a look before and after the run (see `footprint`). Of a directory with
very many files the rest is linked as whole directories.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from pytest_traincheck.launch.footprint import snapshot
from pytest_traincheck.launch.git import GitError
from pytest_traincheck.launch.untracked import CopyOf, tracked_files

MAX_LINKS = 10_000
"""Files and directories of a linked path that are linked one by one."""


class LinkError(ValueError):
    """A path that cannot be linked: which, why, and what to do now."""


def check_links(names: Sequence[str], original: Path) -> None:
    """Raise `LinkError` for the first path that does not exist in the working tree, or of which git tracks a file.

    They are relative and lead nowhere else; see `config.unusable_link`.
    """
    for name in names:
        if not os.path.lexists(original / name):
            raise LinkError(
                f"`link` names `{name}`, and there is no {original / name}. Restore it, or take it out of `link`."
            )
        try:
            tracked = tracked_files(original, name)
        except GitError as error:
            raise LinkError(f"git cannot say whether it tracks `{name}`, which `link` names: {error}.") from error
        if tracked:
            raise LinkError(
                f"`link` names `{name}`, of which git tracks `{tracked[0]}`; a worktree has its own. "
                "Name only what git does not track, or take it out of `link`."
            )


def link_into(tree: CopyOf, names: Sequence[str], top: Path) -> tuple[Path, ...]:
    """Let a worktree, whose top is `top`, see paths of the working tree; returns what they are there.

    A path that the commit has itself stays the commit's. Raises `LinkError`.
    """
    linked = []
    # What holds another comes first: it is made whole.
    for name in sorted(set(names)):
        target = tree.copy / name
        if os.path.lexists(target):
            continue
        if not target.parent.resolve().is_relative_to(top.resolve()):
            raise LinkError(
                f"`link` names `{name}`, which leads out of the worktree by a link that the commit has. Take it out."
            )
        original = (tree.original / name).resolve()
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _mirror(original, target)
        except OSError as error:
            raise LinkError(
                f"`{name}` cannot be linked into {tree.copy}: {error.strerror or error}. "
                "Make room there, or set TMPDIR to another directory."
            ) from error
        linked.append(original)
    return tuple(linked)


def linked_state(names: Sequence[str], original: Path) -> list[str]:
    """Names, sizes and times of what is linked, as far as it is watched: what a golden that saw it depends on."""
    found = []
    for name in sorted(set(names)):
        for directory, entries in sorted(snapshot((original / name).resolve()).directories.items()):
            found += [f"{name}/{directory}{entry} {mark}" for entry, mark in sorted(entries.items())]
    return found


def _mirror(original: Path, target: Path) -> None:
    count = 0
    waiting = deque([(original, target)])
    while waiting:
        source, place = waiting.popleft()
        names = _names(source, MAX_LINKS - count)
        if names is None:
            place.symlink_to(source)
            continue
        count += len(names)
        place.mkdir()
        waiting.extend((source / name, place / name) for name in names)


def _names(directory: Path, most: int) -> list[str] | None:
    """What is in a directory; None for a file, a link, and for more than so many."""
    if directory.is_symlink() or not directory.is_dir():
        return None
    names = []
    with os.scandir(directory) as entries:
        for entry in entries:
            names.append(entry.name)
            if len(names) > most:
                return None
    return sorted(names)
