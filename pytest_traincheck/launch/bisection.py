"""`git bisect` in a worktree of our own: the user's tree, index and own bisect are not touched.

Git chooses the commits, by its own rules for merges and for commits that cannot be tested. The worktree has no files,
only the state: each commit is run in a tree of its own, so that nothing a run leaves behind reaches the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pytest_traincheck.input_error import InputError
from pytest_traincheck.launch.git import GitError, git
from pytest_traincheck.launch.worktree import WorktreeError, temporary_worktree

_FIRST = re.compile(r"^# first bad commit: \[([0-9a-f]{40,64})\]", re.MULTILINE)
_POSSIBLE = re.compile(r"^# possible first bad commit: \[([0-9a-f]{40,64})\]", re.MULTILINE)
_STEPS = re.compile(r"^bisect_(all|steps)=(\d+)$", re.MULTILINE)


class BisectError(InputError, ValueError):
    """There is nothing to find between two commits: what is the matter, and what to do now."""


class Mark(str, Enum):
    """What a commit is, in git's words."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


@dataclass(frozen=True)
class Commit:
    """A commit as a person knows it. `date` is the author's, in ISO 8601."""

    hash: str
    author: str
    date: str
    subject: str
    parents: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        return self.hash[:12]


def describe_commit(repository: Path, commit: str) -> Commit:
    """Author, date and subject of a commit that exists. Raises `GitError`."""
    text = git(repository, "show", "--no-patch", "--format=%H%x00%an <%ae>%x00%aI%x00%s%x00%P", commit, "--")
    name, author, date, subject, parents = text.split("\0")
    return Commit(name, author, date, subject, tuple(parents.split()))


@dataclass(frozen=True)
class Bisection:
    """A bisect that is under way in `tree`."""

    tree: Path

    @property
    def first_bad(self) -> str:
        """The commit that was looked for; empty as long as it is not known."""
        return next(iter(_FIRST.findall(self._log())), "")

    @property
    def possible(self) -> tuple[str, ...]:
        """When only skipped commits are left: those of which one is the first bad one, oldest last."""
        return tuple(_POSSIBLE.findall(self._log()))

    def next(self) -> str:
        """The commit to test now; empty when there is none left."""
        if self.first_bad or self.possible:
            return ""
        return git(self.tree, "rev-parse", "--verify", "BISECT_HEAD")

    def mark(self, commit: str, mark: Mark) -> None:
        """Tell git what a commit is. Raises `BisectError` when that contradicts what it was told before."""
        try:
            git(self.tree, "bisect", mark.value, commit)
        except GitError as error:
            # With only skipped commits left it ends with an error as well, and says which in its log.
            if not self.possible:
                raise BisectError(
                    f"git cannot go on after {commit[:12]} was marked {mark.value}: {error}. "
                    "Choose another good or bad commit."
                ) from error

    def remaining(self) -> tuple[int, int]:
        """How many commits may still be the first bad one, and how many of them are about to be tested."""
        found = dict(_STEPS.findall(git(self.tree, "rev-list", "--bisect", "--bisect-vars")))
        return int(found.get("all", 0)), int(found.get("steps", 0))

    def _log(self) -> str:
        return git(self.tree, "bisect", "log")


@contextmanager
def bisection(repository: Path, good: str, bad: str) -> Iterator[Bisection]:
    """A bisect between two commits, gone with its worktree when the block is left.

    Raises `BisectError` when there can be none between them.
    """
    _require_order(repository, good, bad)
    try:
        with temporary_worktree(repository, bad, checkout=False) as tree:
            try:
                git(tree, "bisect", "start", "--no-checkout", bad, good)
            except GitError as error:
                raise BisectError(
                    f"git cannot bisect between {good[:12]} and {bad[:12]}: {error}. Choose other commits."
                ) from error
            yield Bisection(tree)
    except WorktreeError as error:
        raise BisectError(f"git cannot bisect, since no worktree could be made: {error}") from error


def _require_order(repository: Path, good: str, bad: str) -> None:
    if good == bad:
        raise BisectError(f"Good and bad are the same commit, {good[:12]}. Give two commits, --good and --bad.")
    try:
        base = git(repository, "merge-base", good, bad)
    except GitError as error:
        raise BisectError(
            f"{good[:12]} and {bad[:12]} have no common history to search. Give a good commit that bad descends from "
            "(in a shallow clone, `git fetch --unshallow` first)."
        ) from error
    if base == bad:
        raise BisectError(
            f"The bad commit {bad[:12]} is an ancestor of the good one, {good[:12]}. Swap --good and --bad."
        )
