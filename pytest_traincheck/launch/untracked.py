"""What a run misses in a worktree: files of the working tree that git does not track, data above all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_traincheck.launch.git import GitError, git_output

_LINES = 200
_NOT_FOUND = re.compile(r"no such file|not found|(?:does not|doesn't) exist|(?:cannot|can't) (?:open|find)", re.I)
_QUOTED = re.compile(r"'([^'\n]+)'|\"([^\"\n]+)\"|`([^`\n]+)`")


@dataclass(frozen=True)
class CopyOf:
    """A directory in a worktree, and the one in the user's working tree that it stands for."""

    copy: Path
    original: Path


@dataclass(frozen=True)
class Missing:
    """A path that a run looked for in vain. `link` is what to write for it; empty where it lies outside of the tree."""

    path: Path
    link: str


def find_missing(stderr: str, cwd: Path, tree: CopyOf) -> Missing | None:
    """The first path in the last lines of a failed run that says it is missing, and that only the working tree has."""
    for line in stderr.splitlines()[-_LINES:]:
        if not _NOT_FOUND.search(line):
            continue
        for word in _paths(line):
            # Scripts find their data from where they are started, or from where they lie.
            looked_for = Path(os.path.normpath(cwd / word))
            relative = os.path.relpath(looked_for, tree.copy)
            original = Path(os.path.normpath(tree.original / relative))
            if os.path.lexists(looked_for) or not os.path.lexists(original):
                continue
            untracked = untracked_part(tree.original, relative)
            if untracked is not None:
                return Missing(original, untracked)
    return None


def tracked_files(directory: Path, relative: str) -> list[str]:
    """The files at or below a path, relative to `directory`, that git tracks. Raises `GitError`."""
    return [name for name in git_output(directory, "ls-files", "-z", "--", f":(literal){relative}").split("\0") if name]


def _paths(line: str) -> Iterator[str]:
    for match in _QUOTED.finditer(line):
        yield next(part for part in match.groups() if part is not None)
    for word in line.split():
        yield word.strip("'\"`,;:()[]")


def untracked_part(directory: Path, relative: str) -> str | None:
    """The topmost part of a path of which git tracks nothing; None for a tracked path, empty for one outside."""
    parts = Path(relative).parts
    if not parts or parts[0] == "..":
        return ""
    for count in range(1, len(parts) + 1):
        part = "/".join(parts[:count])
        try:
            if not tracked_files(directory, part):
                return part
        except GitError:
            return None
    return None


def untracked_words(command: str, cwd: Path, root: Path) -> list[str]:
    """Paths below `root` that exist, that git does not track and that a command names, as words or behind `=`."""
    found: list[str] = []
    for word in command.split():
        for text in {word.strip("'\""), word.rpartition("=")[2].strip("'\"")} - {""}:
            place = Path(os.path.normpath(cwd / text))
            if os.path.lexists(place):
                name = untracked_part(root, os.path.relpath(place, root))
                if name and name not in found:
                    found.append(name)
    return found
