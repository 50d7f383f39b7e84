"""What differs between two source trees: the texts of the files that changed, read with bounded effort.

Nothing outside the trees is read, and nothing is raised: what cannot be read is left out.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pytest_traincheck.launch.git import GitError, find_commit, git, git_output

MAX_FILES = 400
"""Files that are compared at most; the rest of a larger difference is left out."""

MAX_SCANNED = 3_000
"""Files that are looked at in each of two trees that no repository can compare."""

MAX_BYTES = 256 * 1024
"""Larger files are data."""

SUFFIXES = frozenset({".py", ".pyi", ".toml", ".yaml", ".yml", ".json", ".cfg", ".ini", ".sh"})
"""Code and configuration. Documentation never changes how a model trains."""

PROSE = frozenset({".md", ".rst"})

_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist", "venv", "golden_invariants"})

_NEVER_READ = PROSE | {".bib", ".cff", ".css", ".html", ".ipynb", ".lock", ".svg", ".tex"}
"""What of the text files that git knows no training reads; any other may be its data."""

_MOST_RENAMED = 40
"""Files that are gone are looked for among the new ones if there are no more of either."""

_ALIKE = 0.5
"""Share of the lines that two files have in common if one was made from the other; as git has it."""


class Changes(dict[str, tuple[str, str]]):
    """Path from the top of the candidate's tree -> text in golden and in the candidate, "" where the file is not.

    `renamed` are the golden paths of files that have another one in the candidate, also where their text is the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self.renamed: dict[str, str] = {}


@dataclass(frozen=True)
class Tree:
    """The top of a source tree. `repository` is set where that is a whole working tree of it, and `commit` where the
    tree is known to be exactly that commit.
    """

    root: Path
    repository: Path | None = None
    commit: str = ""


def between(golden: Tree, candidate: Tree) -> Changes:
    """What differs between two directories. Git names the files where both are of one repository."""
    changes = Changes()
    for old, new in _pairs(golden, candidate):
        if len(changes) == MAX_FILES:
            break
        _add(changes, old, new, read_text(golden.root, old), read_text(candidate.root, new))
    return _with_renamed(changes)


def since_commit(commit: str, repository: Path) -> Changes:
    """What differs between a commit and the working tree of a repository; nothing where it lacks that commit."""
    known = find_commit(repository, commit)
    changes = Changes()
    for old, new in _named_by_git(repository, known, None)[:MAX_FILES] if known else ():
        _add(changes, old, new, _read_commit(repository, known or "", old), read_text(repository, new))
    return _with_renamed(changes)


def code_differs(golden: str | Path, candidate: Path, store: Path) -> bool:
    """Whether anything that may change a training differs between a commit, or a directory, and another directory.

    Data counts too, so for a commit every file does that git knows, but for prose and the golden store, and of the
    others what may be source: reports and traces lie about in many trees. Of two directories only source files are
    compared.
    """
    if isinstance(golden, Path):
        return golden.resolve() != candidate.resolve() and bool(between(Tree(golden), Tree(candidate)))
    try:
        changed = git_output(candidate, "diff", "--name-only", "-z", "--no-relative", "--no-ext-diff", golden, "--")
        added = git_output(candidate, "ls-files", "--others", "--exclude-standard", "--full-name", "-z", "--", ":/")
        top = Path(git(candidate, "rev-parse", "--show-toplevel")).resolve()
    except GitError:
        return True
    names = [name for name in changed.split("\0") if name and PurePosixPath(name).suffix not in PROSE]
    names += [name for name in added.split("\0") if _is_source(name) and not name.endswith(".json")]
    return any(not (top / name).is_relative_to(store.resolve()) for name in names)


def commit_of_file(path: Path) -> str:
    """The commit that last changed a file, or "" when it is not committed as it lies there."""
    try:
        if git(path.parent, "status", "--porcelain", "--", path.name):
            return ""
        return git(path.parent, "log", "-1", "--format=%H", "--", path.name)
    except GitError:
        return ""


def read_text(root: Path, name: str) -> str | None:
    """The text of a file below `root`; "" where there is none, None for what is no small text file inside the tree."""
    if not name:
        return ""
    path = root / name
    try:
        if not path.exists() and not path.is_symlink():
            return ""
        if not path.resolve().is_relative_to(root.resolve()) or not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        return _decoded(path.read_bytes())
    except (OSError, RuntimeError):
        return None


def _add(changes: Changes, old_name: str, new_name: str, old: str | None, new: str | None) -> None:
    if old_name and new_name and old_name != new_name:
        changes.renamed[new_name] = old_name
    if old is not None and new is not None and old != new:
        changes[new_name or old_name] = old, new


def _with_renamed(changes: Changes) -> Changes:
    """The same with what was moved as one file: git does not see that before both names are known to it."""
    gone = [path for path, (_, new) in changes.items() if not new]
    came = [path for path, (old, _) in changes.items() if not old]
    if max(len(gone), len(came)) > _MOST_RENAMED:
        return changes
    pairs = [
        (_likeness(changes[old][0], changes[new][1]), old, new)
        for old in gone
        for new in came
        if PurePosixPath(old).suffix == PurePosixPath(new).suffix
    ]
    for likeness, old, new in sorted(pairs, reverse=True):
        if likeness >= _ALIKE and old in changes and new in changes and not changes[new][0]:
            before, _ = changes.pop(old)
            _add(changes, old, new, before, changes.pop(new)[1])
    return changes


def _likeness(one: str, other: str) -> float:
    """The share of lines that two texts have in common, in whatever order."""
    lines, others = (Counter(line for line in text.splitlines() if line.strip()) for text in (one, other))
    return 2 * (lines & others).total() / max((lines + others).total(), 1)


def _decoded(content: bytes) -> str | None:
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _read_commit(repository: Path, commit: str, name: str) -> str | None:
    if not name:
        return ""
    try:
        if int(git(repository, "cat-file", "-s", f"{commit}:{name}")) > MAX_BYTES:
            return None
        text = git_output(repository, "show", f"{commit}:{name}")
    except (GitError, ValueError):
        return None
    return None if "\0" in text else text.removeprefix("\ufeff")


def _pairs(golden: Tree, candidate: Tree) -> list[tuple[str, str]]:
    """Old and new name of the files that may differ."""
    if golden.repository is not None and golden.repository == candidate.repository:
        if golden.commit:
            return _named_by_git(golden.repository, golden.commit, candidate.commit or None)
        if candidate.commit:
            return [(new, old) for old, new in _named_by_git(golden.repository, candidate.commit, None)]
    return [(name, name) for name in sorted({*_walk(golden.root), *_walk(candidate.root)})]


def _named_by_git(repository: Path, commit: str, other: str | None) -> list[tuple[str, str]]:
    """Old and new name of every file that differs between a commit and another, or the working tree when None."""
    targets = [commit] if other is None else [commit, other]
    try:
        listing = git_output(repository, "diff", "--name-status", "-z", "-M", "--no-ext-diff", *targets, "--")
        extra = git_output(repository, "ls-files", "--others", "--exclude-standard", "-z") if other is None else ""
    except GitError:
        return []
    fields = iter(listing.strip("\0").split("\0"))
    pairs: list[tuple[str, str]] = []
    for status in fields:
        name = next(fields, "")
        if status[:1] in ("R", "C"):
            pairs.append((name, next(fields, "")))
        else:
            pairs.append(("" if status == "A" else name, "" if status == "D" else name))
    known = [pair for pair in pairs if _may_be_read(pair[1] or pair[0])]
    return known + [("", name) for name in extra.strip("\0").split("\0") if _is_source(name)]


def _walk(root: Path) -> Iterator[str]:
    seen = 0
    for directory, folders, files in os.walk(root, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        for name in sorted(files):
            seen += 1
            if seen > MAX_SCANNED:
                return
            path = (Path(directory) / name).relative_to(root).as_posix()
            if _is_source(path):
                yield path


def _is_source(name: str) -> bool:
    return PurePosixPath(name).suffix in SUFFIXES and not _is_hidden(name)


def _may_be_read(name: str) -> bool:
    suffix = PurePosixPath(name).suffix
    return bool(suffix) and suffix not in _NEVER_READ and not _is_hidden(name)


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") or part in _SKIPPED for part in PurePosixPath(name).parts)
