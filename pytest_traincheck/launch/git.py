"""The few git commands that the launcher needs, each with its arguments checked and no shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

# What a git hook sets for its own repository and index. With it, a command for another worktree would write there.
_LOCAL_VARIABLES = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_WORK_TREE",
)

_REMOTE_BRANCH = re.compile(r"[\w.-]+(?:/[\w.-]+)+")


class GitError(RuntimeError):
    """A git command failed; the text is git's own last line."""


@dataclass(frozen=True)
class Repository:
    """A working tree: its top directory, and `prefix`, the path from there to the directory asked about."""

    top: Path
    prefix: str


def git(directory: Path, *arguments: str) -> str:
    """Run git in a directory and return what it prints, stripped. Raises `GitError`."""
    return git_output(directory, *arguments).strip()


def git_output(directory: Path, *arguments: str) -> str:
    """Run git in a directory and return what it prints, as it is. Raises `GitError`."""
    inherited = {name: value for name, value in os.environ.items() if name not in _LOCAL_VARIABLES}
    try:
        done = subprocess.run(
            ["git", "-c", "core.hooksPath=/dev/null", *arguments],
            cwd=directory,
            env={**inherited, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
        )
    except (OSError, ValueError) as error:
        # No such directory, or a NUL character in an argument.
        missing = shutil.which("git") is None
        raise GitError("git is not installed" if missing else str(error)) from error
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise GitError(lines[-1].strip() if lines else f"git {arguments[0]} failed")
    return done.stdout


def find_repository(directory: Path) -> Repository | None:
    """The repository whose working tree holds `directory`, or None."""
    try:
        top = git(directory, "rev-parse", "--show-toplevel")
        prefix = git(directory, "rev-parse", "--show-prefix")
    except GitError:
        return None
    return Repository(Path(top), prefix.rstrip("/")) if top else None


def place_in_repository(directory: Path) -> str:
    """The path of a directory from the top of its repository; empty at the top, and where there is none."""
    repository = find_repository(directory)
    return repository.prefix if repository is not None else ""


def find_commit(directory: Path, ref: str) -> str | None:
    """The full hash of the commit that a ref names, or None."""
    if not is_plausible_ref(ref):
        return None
    try:
        return git(directory, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    except GitError:
        return None


def find_merge_base(directory: Path, commit: str) -> str | None:
    """The best common ancestor of HEAD and a commit, or None."""
    head = find_commit(directory, "HEAD")
    if head is None:
        return None
    try:
        return git(directory, "merge-base", head, commit) or None
    except GitError:
        return None


def is_plausible_ref(ref: str) -> bool:
    """Whether git may be asked about it at all: nothing that could be taken for an option or more than one line."""
    return bool(ref.strip()) and not ref.startswith("-") and ref.isprintable()


def is_shallow(directory: Path) -> bool:
    """Whether history was cut off when the repository was cloned."""
    try:
        return git(directory, "rev-parse", "--is-shallow-repository") == "true"
    except GitError:
        return False


def branch_left_out(directory: Path, ref: str) -> tuple[str, str] | None:
    """Remote and branch of a ref like `origin/main` that no `git fetch` gets here; None where one would."""
    remote, _, branch = ref.partition("/")
    if not branch or not _REMOTE_BRANCH.fullmatch(ref):
        return None
    try:
        fetched = git(directory, "config", "--get-all", f"remote.{remote}.fetch").splitlines()
    except GitError:
        return None
    sources = [entry.lstrip("+").partition(":")[0].removeprefix("refs/heads/") for entry in fetched]
    return (remote, branch) if sources and not any(fnmatchcase(branch, source) for source in sources) else None


def describe_head(directory: Path) -> str:
    """The commit checked out in a directory, with `-dirty` when a tracked file differs; empty without one."""
    commit = find_commit(directory, "HEAD")
    if commit is None:
        return ""
    try:
        changed = git(directory, "status", "--porcelain", "--untracked-files=no", "--", ".")
    except GitError:
        return commit
    return f"{commit}-dirty" if changed else commit
