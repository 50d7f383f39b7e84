"""A refresh of several files is killed: the store has all of the old ones, or all of the new ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_traincheck.golden import locks, store, transaction
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.golden.transaction import PENDING, replace_all, settle

NAMES = ("a.jsonl", "a.cpu.npz", "b.jsonl")


def content(directory: Path) -> set[bytes]:
    return {(directory / name).read_bytes() for name in NAMES}


def files(directory: Path, data: bytes) -> dict[Path, bytes]:
    return {directory / name: data for name in NAMES}


# Every call that touches a name on the disk, in turn: the process dies instead of making it.
KILLED = """
import os, sys
from pathlib import Path
from pytest_traincheck.golden.transaction import replace_all

left = int(sys.argv[2])

def dying(original):
    def call(*arguments, **keywords):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
        return original(*arguments, **keywords)
    return call

for name in ("replace", "rename", "mkdir", "rmdir", "unlink"):
    setattr(Path, name, dying(getattr(Path, name)))
os.open = dying(os.open)
directory = Path(sys.argv[1])
replace_all(directory, {directory / name: b"new" for name in sys.argv[3:]})
"""


def test_killed_at_any_moment_it_is_all_or_nothing(tmp_path: Path) -> None:
    outcomes = []
    for moment in range(40):
        directory = tmp_path / str(moment)
        directory.mkdir()
        replace_all(directory, files(directory, b"old"))
        done = subprocess.run([sys.executable, "-c", KILLED, str(directory), str(moment), *NAMES], check=False)
        # Whoever comes next finishes what was decided, and clears away what was not.
        settle(directory)
        assert content(directory) in ({b"old"}, {b"new"}), moment
        outcomes.append(content(directory))
        replace_all(directory, files(directory, b"last"))
        assert {path.name for path in directory.iterdir()} == set(NAMES)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    else:
        pytest.fail("it never came to an end")
    assert {b"old"} in outcomes
    assert {b"new"} in outcomes[:-1]  # decided, but killed before all was in its place


def test_whoever_reads_next_finishes_it(golden: Golden, tmp_path: Path) -> None:
    path = tmp_path / "tiny_gpt.jsonl"
    store.write(path, golden)
    wanted = path.read_bytes()
    (tmp_path / PENDING).mkdir()
    path.rename(tmp_path / PENDING / path.name)
    assert store.read(path).pipeline == "tiny_gpt"
    assert path.read_bytes() == wanted
    assert not (tmp_path / PENDING).exists()


def test_what_no_refresh_has_left_is_not_followed_out_of_the_store(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    directory = tmp_path / "store"
    (directory / PENDING).mkdir(parents=True)
    (directory / "a.jsonl").symlink_to(outside)
    (directory / PENDING / "a.jsonl").write_text("theirs")
    settle(directory)
    assert outside.read_text() == "mine"
    (directory / PENDING).mkdir()
    (directory / PENDING / "b.jsonl").symlink_to(outside)
    with pytest.raises(GoldenError, match=r"could not be finished: .*no refresh has written.* delete .*pending"):
        store.read(directory / "a.jsonl")


def test_links_in_the_store_stay_links(tmp_path: Path) -> None:
    apart = tmp_path / "apart"
    apart.mkdir()
    directory = tmp_path / "store"
    directory.mkdir()
    (directory / "a.jsonl").symlink_to(apart / "real.jsonl")
    replace_all(directory, files(directory, b"new"))
    assert (directory / "a.jsonl").is_symlink()
    assert (apart / "real.jsonl").read_bytes() == b"new"
    assert content(directory) == {b"new"}


@pytest.mark.parametrize("name", ["rules.golden", "rules", "rules.json"])
def test_a_golden_may_have_any_name(name: str, tmp_path: Path) -> None:
    written = {tmp_path / name: b"rules", tmp_path / f"{name}.cpu.npz": b"numbers"}
    for _ in range(2):
        replace_all(tmp_path, written)
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == written


def test_numbers_are_written_before_the_rules_of_a_golden_of_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    monkeypatch.setattr(transaction, "replace_file", lambda path, _: names.append(path.name))
    replace_all(tmp_path, {tmp_path / "rules.golden": b"", tmp_path / "rules.golden.cpu.npz": b""})
    assert names == ["rules.golden.cpu.npz", "rules.golden"]


def test_a_full_disk_leaves_all_files_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_all(tmp_path, files(tmp_path, b"old"))
    written = []

    def full(path: Path, data: bytes, like: Path) -> None:
        written.append((path, data, like))
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        path.write_bytes(data)

    monkeypatch.setattr(transaction, "write_new", full)
    with pytest.raises(OSError, match="No space left"):
        replace_all(tmp_path, files(tmp_path, b"new"))
    assert content(tmp_path) == {b"old"}
    assert {path.name for path in tmp_path.iterdir()} == set(NAMES)


HOLDER = """
import sys, time
from pathlib import Path
from pytest_traincheck.golden import locks

store = Path(sys.argv[1])
with locks.refreshing(store, sys.argv[2], lambda holder: print("waits for", holder, flush=True)):
    print("holds", flush=True)
    sys.stdin.readline()
"""


def holder(directory: Path, what: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(directory), what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def test_the_second_refresh_waits_for_the_first_and_knows_whose_it_is(tmp_path: Path) -> None:
    first = holder(tmp_path, "traincheck refresh net")
    assert first.stdout is not None
    assert first.stdout.readline() == "holds\n"
    second = holder(tmp_path, "traincheck refresh gan")
    assert second.stdout is not None
    assert second.stdout.readline().startswith(f"waits for process {first.pid} (traincheck refresh net, since ")
    assert second.poll() is None
    first.communicate("\n", timeout=60)
    assert second.stdout.readline() == "holds\n"
    second.communicate("\n", timeout=60)
    assert (first.returncode, second.returncode) == (0, 0)
    assert {path.name for path in tmp_path.iterdir()} == {store.LOCK_NAME}


def test_a_refresh_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    first = holder(tmp_path, "traincheck refresh net")
    assert first.stdout is not None
    assert first.stdout.readline() == "holds\n"
    first.kill()
    first.communicate(timeout=60)
    with locks.refreshing(tmp_path, "traincheck refresh net", lambda _holder: pytest.fail("nobody holds it")):
        assert str(os.getpid()) in locks.holder_path(tmp_path).read_text()


def git(directory: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=directory, capture_output=True, text=True, check=True).stdout


@pytest.mark.fault(
    area="Goldens",
    tried="a refresh in a repository, or in a worktree of one",
    happens="the lock lies in git's directory, and nothing is left beside the goldens",
)
@pytest.mark.parametrize("linked", [False, True])
def test_nothing_is_left_that_git_would_commit(tmp_path: Path, linked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tmp_path / "repository"
    git(tmp_path, "init", "-q", str(tree))
    if linked:
        git(tree, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first")
        git(tree, "worktree", "add", "-q", "--detach", "../linked")
        tree = tmp_path / "linked"
    one, other = tree / "golden_invariants", tree / "others"
    with (
        locks.refreshing(one, "traincheck refresh net", lambda _holder: pytest.fail("nobody holds it")),
        locks.refreshing(other, "traincheck refresh net", lambda _holder: pytest.fail("it is another store")),
    ):
        assert not list(one.iterdir())
        seen: list[str] = []
        monkeypatch.setattr(locks, "REFRESH_TIMEOUT_S", 0.05)
        with (
            pytest.raises(GoldenError, match=r"process \d+ \(traincheck refresh net"),
            locks.refreshing(one, "traincheck refresh net", seen.append),
        ):
            pass
        assert len(seen) == 1
    assert not list(one.iterdir())
    assert git(tree, "status", "--porcelain", "--ignored") == ""
