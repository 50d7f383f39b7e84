"""Directories and git refs as sides, on real repositories; no worktree is left behind."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_traincheck.launch.sides import CheckedOutSide, SideError, open_side, resolve_side, separation

Git = Callable[..., str]


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the worktrees of this test are made, so that what is left of them can be seen."""
    directory = tmp_path / "scratch"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    monkeypatch.setenv("TMPDIR", str(directory))
    return directory


def assert_nothing_left(repository: Path, scratch: Path, git: Git) -> None:
    assert list(scratch.iterdir()) == []
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert not list((repository / ".git").glob("worktrees/*"))


def test_a_ref_is_a_worktree_of_its_commit(repository: Path, scratch: Path, git: Git) -> None:
    source = resolve_side("v1", repository / "sub")
    assert source.is_ref
    assert source.commit == git(repository, "rev-parse", "v1^{commit}")
    with open_side(source) as side:
        assert (side.path / "value.txt").read_text() == "old"
        assert side.path == side.root / "sub"
        assert side.root.name == repository.name
        assert not side.root.is_relative_to(repository)
        assert side.commit == source.commit
        assert side.repository == repository
        (side.root / "left by the run.txt").write_text("untracked")
        (side.path / "value.txt").write_text("changed")
    assert_nothing_left(repository, scratch, git)
    assert (repository / "sub" / "value.txt").read_text() == "new"


def test_a_directory_is_used_in_place(repository: Path, git: Git, tmp_path: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    with open_side(resolve_side("sub", repository)) as side:
        assert side == CheckedOutSide(repository / "sub", repository, head, repository)
    (repository / "sub" / "value.txt").write_text("edited")
    assert resolve_side(str(repository), tmp_path).commit == f"{head}-dirty"
    plain = tmp_path / "plain"
    plain.mkdir()
    with open_side(resolve_side("plain", tmp_path)) as side:
        assert side == CheckedOutSide(plain, plain)


@pytest.mark.parametrize("name", ["feature/x;touch pwned", "$(touch pwned)", "`touch pwned`", "größe|tee", "a&b'c\"d"])
def test_odd_branch_names_are_only_names(repository: Path, scratch: Path, git: Git, name: str) -> None:
    git(repository, "update-ref", f"refs/heads/{name}", "v1") if " " not in name else None
    if " " in name:
        # git itself refuses blanks in refs; what matters is that nothing runs.
        with pytest.raises(SideError, match="no git ref"):
            resolve_side(name, repository)
    else:
        with open_side(resolve_side(name, repository)) as side:
            assert (side.root / "sub" / "value.txt").read_text() == "old"
    assert not list(repository.rglob("pwned"))
    assert_nothing_left(repository, scratch, git)


@pytest.mark.parametrize(
    "text",
    [
        "no-such-branch",
        "--output=pwned",
        "-h",
        "",
        "   ",
        "HEAD\nHEAD",
        "a\0b",
        "HEAD:sub",
        "x" * 5000,
        "~nobody-of-that-name/x",
    ],
)
def test_what_is_no_side_is_named_with_a_remedy(repository: Path, text: str) -> None:
    with pytest.raises(SideError) as caught:
        resolve_side(text, repository)
    assert f"`{text}`" in str(caught.value)
    assert not list(repository.rglob("pwned"))


def test_a_ref_outside_of_any_repository(tmp_path: Path) -> None:
    with pytest.raises(SideError, match="not inside a git working tree"):
        resolve_side("main", tmp_path)


def test_a_name_that_is_both_is_not_guessed(repository: Path, git: Git) -> None:
    git(repository, "branch", "sub", "v1")
    with pytest.raises(SideError, match=r"\./sub for the directory"):
        resolve_side("sub", repository)
    assert not resolve_side("./sub", repository).is_ref
    assert resolve_side("refs/heads/sub", repository).is_ref


def test_merge_base_is_where_head_left(repository: Path, git: Git) -> None:
    git(repository, "checkout", "--quiet", "-b", "feature", "v1")
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "feature")
    assert resolve_side("merge-base:main", repository).commit == git(repository, "rev-parse", "v1^{commit}")
    with pytest.raises(SideError, match="no git ref"):
        resolve_side("merge-base:nowhere", repository)
    git(repository, "checkout", "--quiet", "--orphan", "island")
    git(repository, "commit", "--quiet", "-m", "island")
    with pytest.raises(SideError, match="no common commit"):
        resolve_side("merge-base:main", repository)


def test_a_shallow_clone_says_so(repository: Path, tmp_path: Path, git: Git) -> None:
    git(tmp_path, "clone", "--quiet", "--depth=1", repository.as_uri(), "shallow")
    with pytest.raises(SideError, match="fetch --unshallow"):
        resolve_side("v1", tmp_path / "shallow")


def test_a_clone_of_one_branch_says_how_to_get_another(repository: Path, tmp_path: Path, git: Git) -> None:
    """What CI services do by default; `git fetch` alone would never bring the branch."""
    git(repository, "branch", "release/1")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth=1", repository.as_uri(), "clone")
    with pytest.raises(SideError, match="leaves that branch out") as refused:
        resolve_side("merge-base:origin/release/1", clone)
    for command in re.findall(r"`git ([^`]+)`", str(refused.value)):
        git(clone, *command.split())
    assert resolve_side("merge-base:origin/release/1", clone).commit
    with pytest.raises(SideError, match="Check the spelling"):
        resolve_side("elsewhere/main", clone)


def test_a_commit_without_the_directory(repository: Path, scratch: Path, git: Git) -> None:
    (repository / "later").mkdir()
    with pytest.raises(SideError, match="has no directory later"), open_side(resolve_side("v1", repository / "later")):
        pytest.fail("must not open")
    assert_nothing_left(repository, scratch, git)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_worktree_goes_whatever_happens(
    repository: Path, scratch: Path, git: Git, error: type[BaseException]
) -> None:
    with pytest.raises(error), open_side(resolve_side("v1", repository)):
        raise error
    assert_nothing_left(repository, scratch, git)


def test_a_worktree_that_the_run_deleted_is_forgotten_too(repository: Path, scratch: Path, git: Git) -> None:
    with open_side(resolve_side("v1", repository)) as side:
        shutil.rmtree(side.root)
    assert_nothing_left(repository, scratch, git)


def test_other_peoples_absent_worktrees_are_kept(repository: Path, scratch: Path, git: Git, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "--quiet", "--detach", str(tmp_path / "theirs"))
    (tmp_path / "theirs").rename(tmp_path / "unplugged")
    with open_side(resolve_side("v1", repository)) as side:
        # Without it git refuses to remove the worktree, and the other way is taken.
        (side.root / ".git").unlink()
    assert str(side.root) not in git(repository, "worktree", "list")
    assert str(tmp_path / "theirs") in git(repository, "worktree", "list")
    assert list(scratch.iterdir()) == []


def test_many_at_once(repository: Path, scratch: Path, git: Git) -> None:
    source = resolve_side("v1", repository)
    read: list[str] = []
    together = threading.Barrier(4)

    def use() -> None:
        with open_side(source) as side:
            together.wait(timeout=30)
            read.append((side.root / "sub" / "value.txt").read_text())

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read == ["old"] * 4
    assert_nothing_left(repository, scratch, git)


def test_trees_made_while_others_are_removed(repository: Path, scratch: Path, git: Git) -> None:
    """Git reads the books on all worktrees, also on one that is half made or half gone, and then makes none."""
    source = resolve_side("v1", repository)
    failed: list[str] = []

    def use() -> None:
        for _ in range(50):
            try:
                with open_side(source):
                    pass
            except SideError as error:
                failed.append(str(error))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert_nothing_left(repository, scratch, git)


HOLD = """
import signal, sys, time
from pathlib import Path
from pytest_traincheck.launch.sides import open_side, resolve_side
from pytest_traincheck.launch.termination import exit_on_termination
# Whatever runs these tests may ignore them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
with exit_on_termination(), open_side(resolve_side("v1", Path(sys.argv[1]))) as side:
    Path(sys.argv[2]).write_text(str(side.root))
    time.sleep(600)
"""


def hold_open(repository: Path, tmp_path: Path) -> tuple[subprocess.Popen[bytes], Path]:
    told = tmp_path / "told"
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(repository), str(told)])
    deadline = time.monotonic() + 30
    while not (told.exists() and told.read_text()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process, Path(told.read_text())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_cancelled_job_cleans_up(
    repository: Path, scratch: Path, git: Git, tmp_path: Path, number: signal.Signals
) -> None:
    process, tree = hold_open(repository, tmp_path)
    assert tree.is_dir()
    process.send_signal(number)
    code = process.wait(timeout=30)
    assert code == (-number if number is signal.SIGINT else 128 + number)
    assert_nothing_left(repository, scratch, git)


def test_the_next_call_sweeps_up_after_a_killed_one_only(
    repository: Path, scratch: Path, git: Git, tmp_path: Path
) -> None:
    process, tree = hold_open(repository, tmp_path)
    with open_side(resolve_side("v1", repository)):
        assert tree.is_dir(), "the worktree of a process that lives must stay"
    process.kill()
    process.wait()
    assert tree.is_dir()
    with open_side(resolve_side("v1", repository)):
        assert not tree.exists()
    assert_nothing_left(repository, scratch, git)


def test_hooks_neither_run_nor_lead_astray(
    repository: Path, scratch: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the tool is called from a pre-commit hook: git has set its variables for that commit."""
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    index = repository / ".git" / "index"
    before = index.read_bytes()
    monkeypatch.setenv("GIT_DIR", ".git")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/index")
    with open_side(resolve_side("v1", repository / "sub")) as side:
        assert (side.path / "value.txt").read_text() == "old"
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert not (tmp_path / "ran").exists()
    assert index.read_bytes() == before
    assert_nothing_left(repository, scratch, git)


def test_a_worktree_that_cannot_be_made(repository: Path, scratch: Path, git: Git) -> None:
    source = resolve_side("v1", repository)
    blob = git(repository, "rev-parse", "v1:sub/value.txt")
    stored = repository / ".git" / "objects" / blob[:2] / blob[2:]
    stored.chmod(0o644)
    stored.unlink()
    with pytest.raises(SideError, match="no worktree of `v1` could be made"), open_side(source):
        pytest.fail("must not open")
    assert_nothing_left(repository, scratch, git)


def test_no_git_is_needed_for_two_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "golden").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    with open_side(resolve_side("golden", tmp_path)) as side:
        assert side.path == tmp_path / "golden"


def test_what_separates_two_sides(tmp_path: Path) -> None:
    top, tree = tmp_path / "repo", tmp_path / "tree"
    ref, here = CheckedOutSide(tree / "sub", tree), CheckedOutSide(top / "sub", top)
    assert separation(ref, here) == (tree, (top,))
    one, two = CheckedOutSide(top / "a", top), CheckedOutSide(top / "b", top)
    assert separation(one, two) == (top / "a", (top / "b",))
    assert separation(one, one) == (top, ())


def test_submodules_are_those_of_the_commit(tmp_path: Path, repository: Path, scratch: Path, git: Git) -> None:
    """Borrowed from the working tree, one within another; what is not checked out there stays empty."""
    allowed = ("-c", "protocol.file.allow=always")
    for name in ("inner", "library", "absent"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "--quiet", "--initial-branch=main")
        (tmp_path / name / "value.txt").write_text(f"{name} old")
        git(tmp_path / name, "add", ".")
        git(tmp_path / name, "commit", "--quiet", "-m", "old")
    git(tmp_path / "library", *allowed, "submodule", "--quiet", "add", str(tmp_path / "inner"), "deep/inner")
    git(tmp_path / "library", "commit", "--quiet", "-m", "with another")
    for name in ("library", "absent"):
        git(repository, *allowed, "submodule", "--quiet", "add", str(tmp_path / name), f"parts/{name}")
    git(repository, *allowed, "submodule", "--quiet", "update", "--init", "--recursive")
    git(repository, "commit", "--quiet", "-m", "with submodules")
    git(repository, "submodule", "--quiet", "deinit", "parts/absent")
    golden = git(repository, "rev-parse", "HEAD")
    (repository / "parts" / "library" / "value.txt").write_text("library new")
    git(repository / "parts" / "library", "commit", "--quiet", "-am", "new")
    git(repository, "commit", "--quiet", "-am", "newer library")

    with open_side(resolve_side(golden, repository)) as side:
        assert (side.path / "parts" / "library" / "value.txt").read_text() == "library old"
        assert (side.path / "parts" / "library" / "deep" / "inner" / "value.txt").read_text() == "inner old"
        assert list((side.path / "parts" / "absent").iterdir()) == []
    with open_side(resolve_side("HEAD", repository)) as side:
        assert (side.path / "parts" / "library" / "value.txt").read_text() == "library new"
    assert_nothing_left(repository, scratch, git)
    assert git(repository, "status", "--porcelain") == ""
