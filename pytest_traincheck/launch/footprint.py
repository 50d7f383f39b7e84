"""What a run leaves in a tree that is not a copy: files that it created, changed or deleted.

Found by looking at names, sizes and times before and after, with bounded effort: a directory counts only where it was
read as a whole both times, so a tree that is too large is watched in part, from the top, and nothing is made up.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

MAX_ENTRIES = 20_000
"""Files and directories that are looked at in a tree."""

MAX_SECONDS = 2.0

# What programs keep for themselves: version control, bytecode, test and tool caches, environments.
_SKIPPED = frozenset(
    {
        ".git", ".hg", ".svn", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox",
        ".nox", ".venv", "venv", "node_modules", "site-packages", ".ipynb_checkpoints",
    }
)  # fmt: skip

_Mark = tuple[int, int, int, bool]
"""Time of change in ns, size, inode (all 0 for a directory), and whether it is a directory."""


@dataclass(frozen=True)
class Snapshot:
    """The directories below `root` that were read, each with what is in it."""

    root: Path
    directories: Mapping[str, Mapping[str, _Mark]]


@dataclass(frozen=True)
class Footprint:
    """Paths below `root`, sorted; a directory ends with `/` and stands for all that is in it."""

    root: Path
    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.created or self.changed or self.deleted)


def snapshot(root: Path, ignored: Collection[Path] = ()) -> Snapshot:
    """Look at a tree, or a single file, without following links; `ignored` are absolute paths to leave out.

    Never raises: what cannot be read is left out.
    """
    leave_out = {str(path) for path in ignored}
    deadline = time.monotonic() + MAX_SECONDS
    directories: dict[str, Mapping[str, _Mark]] = {}
    seen = 0
    waiting = deque([""])
    while waiting and time.monotonic() < deadline:
        relative = waiting.popleft()
        found = _listing(root, relative, leave_out)
        if found is None:
            continue
        seen += len(found)
        if seen > MAX_ENTRIES:
            break
        directories[relative] = found
        waiting.extend(f"{relative}{name}/" for name, mark in found.items() if mark[3])
    return Snapshot(root, directories)


def difference(before: Snapshot, after: Snapshot) -> Footprint:
    """What happened to a tree between two looks at it."""
    created, changed, deleted = [], [], []
    for relative, old in before.directories.items():
        new = after.directories.get(relative)
        if new is None:
            continue
        for name in sorted(old.keys() | new.keys()):
            was, now = old.get(name), new.get(name)
            path = f"{relative}{name}"
            if was is None and now is not None:
                created.append(path + "/" * now[3])
            elif now is None and was is not None:
                deleted.append(path + "/" * was[3])
            elif was != now:
                changed.append(path)
    return Footprint(before.root, tuple(sorted(created)), tuple(sorted(changed)), tuple(sorted(deleted)))


def together(footprints: Iterable[Footprint]) -> tuple[Footprint, ...]:
    """One footprint for each tree, of runs one after another: what one created is not changed or deleted by another."""
    found: dict[Path, Footprint] = {}
    for one in footprints:
        former = found.get(one.root, Footprint(one.root))
        created = {*former.created, *one.created} - {*former.deleted, *one.deleted}
        deleted = {*former.deleted, *one.deleted} - {*former.created, *one.created}
        changed = {*former.changed, *one.changed, *({*former.deleted} & {*one.created})} - created - deleted
        found[one.root] = Footprint(one.root, tuple(sorted(created)), tuple(sorted(changed)), tuple(sorted(deleted)))
    return tuple(one for one in found.values() if one)


def _listing(root: Path, relative: str, ignored: Collection[str]) -> dict[str, _Mark] | None:
    """Names and marks of what is in a directory; None for what cannot be read, an environment and a huge one."""
    found: dict[str, _Mark] = {}
    try:
        with os.scandir(root / relative) as entries:
            for entry in entries:
                if entry.name in _SKIPPED or entry.path in ignored:
                    continue
                if entry.name == "pyvenv.cfg" or len(found) > MAX_ENTRIES:
                    return None
                if entry.is_dir(follow_symlinks=False):
                    found[entry.name] = (0, 0, 0, True)
                else:
                    status = entry.stat(follow_symlinks=False)
                    found[entry.name] = (status.st_mtime_ns, status.st_size, status.st_ino, False)
    except NotADirectoryError:
        return _single(root) if not relative else None
    except OSError:
        return None
    return found


def _single(root: Path) -> dict[str, _Mark]:
    status = root.stat()
    return {"": (status.st_mtime_ns, status.st_size, status.st_ino, False)}
