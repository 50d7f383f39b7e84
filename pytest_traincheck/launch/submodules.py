"""The submodules of a temporary worktree: git leaves their directories empty there."""

from __future__ import annotations

from pathlib import Path

from pytest_traincheck.launch.git import GitError, find_commit, git, git_output

_GITLINK = "160000"


def fill_submodules(repository: Path, tree: Path, commit: str) -> None:
    """Check out in `tree`, a worktree of `commit`, every submodule that `repository` has checked out itself.

    They are borrowed from there, so no network is needed. One that is not checked out there, or whose commit was not
    fetched, stays empty, as it is for the user.
    """
    if not (tree / ".gitmodules").is_file():
        return
    for path, wanted in _submodules(repository, commit):
        source, target = repository / path, tree / path
        if not (source / ".git").exists() or find_commit(source, wanted) is None:
            continue
        git(tree, "clone", "--quiet", "--shared", "--no-checkout", str(source), str(target))
        git(target, "checkout", "--quiet", "--detach", wanted)
        fill_submodules(source, target, wanted)


def _submodules(repository: Path, commit: str) -> list[tuple[str, str]]:
    """Path and commit of every submodule of a commit."""
    try:
        entries = git_output(repository, "ls-tree", "-r", "-z", commit).split("\0")
    except GitError:
        return []
    found = [entry.partition("\t") for entry in entries if entry.startswith(_GITLINK)]
    return [(path, about.split()[2]) for about, _, path in found]
