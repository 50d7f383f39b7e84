"""The two sides of a comparison: a directory as it lies there, or a commit of a repository."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_traincheck.input_error import InputError
from pytest_traincheck.launch import git
from pytest_traincheck.launch.link import LinkError, check_links, link_into
from pytest_traincheck.launch.untracked import CopyOf
from pytest_traincheck.launch.worktree import WorktreeError, temporary_worktree

MERGE_BASE = "merge-base:"
"""`merge-base:REF` is the commit where HEAD left REF."""


class SideError(InputError, ValueError):
    """A side that cannot be used: what happened, to which one, and what to do now."""


@dataclass(frozen=True)
class SideSource:
    """Where a side's code comes from. Without `ref` it is `directory` in place.

    With `ref` it is `commit` of `repository`, and `prefix` is the path inside it that corresponds to where the user is.
    """

    text: str
    directory: Path
    commit: str = ""
    repository: Path | None = None
    prefix: str = ""
    is_ref: bool = False


@dataclass(frozen=True)
class CheckedOutSide:
    """A side that can be run: `path` is where commands run, `root` the top of its tree."""

    path: Path
    root: Path
    commit: str = ""
    repository: Path | None = None
    tree: CopyOf | None = None
    """Set for a worktree: the directory of the working tree that `path` stands for."""
    linked: tuple[Path, ...] = ()
    """What a worktree sees of the working tree beside the commit."""

    @property
    def watched(self) -> tuple[Path, ...]:
        """What of the user's a run on this side may write to."""
        return self.linked if self.tree is not None else (self.root,)


def resolve_side(text: str, cwd: Path) -> SideSource:
    """What `text` names, seen from `cwd`: an existing directory, else a git ref of the repository that holds `cwd`.

    Raises `SideError` for what is neither, and for what is both.
    """
    cwd = cwd.absolute()
    if not text.strip() or "\0" in text:
        raise SideError(f"`{text}` names no directory and no git ref. Give one of the two.")
    directory = _directory(text, cwd)
    repository = git.find_repository(cwd)
    commit = _find_commit(text, cwd) if repository is not None else None
    if directory is not None:
        if commit is not None and "/" not in text and text not in (".", ".."):
            raise SideError(
                f"`{text}` is a directory in {cwd} and a git ref too. "
                f"Write ./{text} for the directory or {commit[:12]} for the commit."
            )
        own = git.find_repository(directory)
        top = own.top if own is not None else None
        return SideSource(text, directory, git.describe_head(directory) if own is not None else "", top)
    if repository is None:
        raise SideError(
            f"`{text}` is no directory, and {cwd} is not inside a git working tree in which it could be a ref. "
            "Give an existing directory, or run this inside the repository."
        )
    if commit is None:
        raise SideError(_unknown(text, cwd, repository.top))
    return SideSource(text, cwd, commit, repository.top, repository.prefix, is_ref=True)


def _directory(text: str, cwd: Path) -> Path | None:
    """The existing directory that `text` names, or None."""
    try:
        directory = cwd / Path(text).expanduser()
        return directory if directory.is_dir() else None
    except (OSError, RuntimeError):
        # Too long for a path, or the home of a user who does not exist.
        return None


def _find_commit(text: str, cwd: Path) -> str | None:
    if not text.startswith(MERGE_BASE):
        return git.find_commit(cwd, text)
    other = git.find_commit(cwd, text.removeprefix(MERGE_BASE))
    return git.find_merge_base(cwd, other) if other is not None else None


def _unknown(text: str, cwd: Path, top: Path) -> str:
    ref = text.removeprefix(MERGE_BASE)
    deepen = " --unshallow" if git.is_shallow(cwd) else ""
    if ref != text and git.find_commit(cwd, ref) is not None:
        what = f"HEAD and `{ref}` have no common commit in {top}."
    else:
        what = f"`{text}` is no directory in {cwd} and no git ref of {top}."
    if (missing := git.branch_left_out(cwd, ref)) is not None:
        remote, branch = missing
        return (
            f"{what} This clone leaves that branch out, as with `--depth` and `--single-branch`: run "
            f"`git remote set-branches --add {remote} {branch}` and `git fetch{deepen} {remote}` "
            "(in CI, fetch the whole history)."
        )
    if deepen:
        return f"{what} The clone is shallow: run `git fetch --unshallow` (in CI, fetch the whole history)."
    return f"{what} Check the spelling with `git branch --all` and `git tag`, or fetch it with `git fetch origin`."


@contextmanager
def open_side(source: SideSource, link: Sequence[str] = ()) -> Iterator[CheckedOutSide]:
    """The side's tree. A commit gets a detached worktree outside the repository, removed at the end of the block.

    `link` are paths of the working tree, relative to the side's, that a worktree sees too. Raises `SideError` when one
    of them cannot be linked, and when the worktree cannot be made or lacks the directory that commands run in.
    """
    if not source.is_ref or source.repository is None:
        root = source.repository or source.directory
        yield CheckedOutSide(source.directory, root, source.commit, source.repository)
        return
    try:
        check_links(link, source.directory)
        worktree = temporary_worktree(source.repository, source.commit)
        with worktree as root:
            path = root / source.prefix
            if not path.is_dir():
                raise SideError(
                    f"`{source.text}` ({source.commit[:12]}) has no directory {source.prefix}. "
                    "Choose a commit that has it, or run this from the top of the repository."
                )
            tree = CopyOf(path, source.directory)
            linked = link_into(tree, link, root)
            yield CheckedOutSide(path, root, source.commit, source.repository, tree, linked)
    except LinkError as error:
        raise SideError(str(error)) from error
    except WorktreeError as error:
        raise SideError(f"no worktree of `{source.text}` could be made: {error}") from error


def separation(side: CheckedOutSide, other: CheckedOutSide) -> tuple[Path, tuple[Path, ...]]:
    """The source root of a side and the roots it must not import from.

    Two directories of one working tree share their root, so there each directory stands for itself.
    """
    if side.root.resolve() != other.root.resolve():
        return side.root, (other.root,)
    if side.path.resolve() != other.path.resolve():
        return side.path, (other.path,)
    return side.root, ()
