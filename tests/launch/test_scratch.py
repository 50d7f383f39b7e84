"""Temporary directories: gone afterwards, swept when their process was killed, and never anybody else's."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_traincheck import scratch
from pytest_traincheck.cli import main
from pytest_traincheck.launch.worktree import sweep_temporary
from pytest_traincheck.scratch import LOCK, ScratchError, scratch_directory


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "temporary files"
    directory.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    return directory


def abandoned(place: Path) -> Path:
    """The directory of a process that was killed."""
    program = (
        "import os, sys, tempfile\ntempfile.tempdir = sys.argv[1]\n"
        "from pytest_traincheck.scratch import scratch_directory\n"
        "with scratch_directory('x') as directory:\n"
        "    (directory / 'deep').mkdir(); (directory / 'deep' / 'file').touch()\n"
        "    print(directory, flush=True); os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(place)], capture_output=True, text=True, check=False)
    return Path(done.stdout.strip())


def test_it_is_private_and_gone_afterwards(place: Path) -> None:
    with scratch_directory("kind") as directory:
        assert directory.parent == place.resolve()
        assert directory.name.startswith("traincheck-kind-")
        assert directory.stat().st_mode & 0o777 == 0o700
        assert [path.name for path in directory.iterdir()] == [LOCK]
    assert list(place.iterdir()) == []


@pytest.mark.fault(
    area="Disk",
    tried="a run leaves directories without permissions and links in its `{{tmp}}`",
    happens="all of it is removed; what the links point to stays",
)
def test_what_cannot_be_entered_is_removed_too_and_links_are_not_followed(place: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    with scratch_directory() as directory:
        (directory / "closed" / "deep").mkdir(parents=True)
        (directory / "closed" / "link").symlink_to(tmp_path / "mine")
        (directory / "closed").chmod(0)
    assert list(place.iterdir()) == []
    assert (tmp_path / "mine" / "file").exists()


def test_a_dead_one_is_swept_and_a_living_one_stays(place: Path) -> None:
    dead = abandoned(place)
    assert (dead / "deep" / "file").exists()
    with scratch_directory() as alive:
        sweep_temporary()
        assert not dead.exists()
        assert alive.exists()


FOREIGN = {
    "without a lock": lambda directory: (directory / LOCK).unlink(),
    "with another lock": lambda directory: (directory / LOCK).write_text("pid 1"),
    "with a link as its lock": lambda directory: (
        (directory / LOCK).rename(directory / "lock"), (directory / LOCK).symlink_to(directory / "lock")
    ),
    "with a directory as its lock": lambda directory: ((directory / LOCK).unlink(), (directory / LOCK).mkdir()),
    "with a pipe as its lock": lambda directory: ((directory / LOCK).unlink(), os.mkfifo(directory / LOCK)),
    "with another name": lambda directory: directory.rename(directory.with_name("mine")),
    "that is still being made": lambda directory: (directory / LOCK).rename(directory / f"{LOCK}.new"),
}  # fmt: skip


@pytest.mark.fault(
    area="Disk", tried="a temporary directory with our name, {what}", happens="it is never taken for a dead one of ours"
)
@pytest.mark.parametrize("what", FOREIGN)
def test_a_directory_stays(place: Path, what: str) -> None:
    FOREIGN[what](abandoned(place))
    sweep_temporary()
    assert len(list(place.rglob("deep/file"))) == 1


def test_a_link_to_a_dead_one_stays(place: Path, tmp_path: Path) -> None:
    dead = abandoned(place).rename(tmp_path / "elsewhere")
    (place / "traincheck-link").symlink_to(dead)
    sweep_temporary()
    assert (dead / "deep" / "file").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_directory_of_another_user_stays(place: Path) -> None:
    dead = abandoned(place)
    os.chown(dead, 12345, 12345)
    sweep_temporary()
    assert dead.exists()
    shutil.rmtree(dead)


def test_two_do_not_sweep_one(place: Path) -> None:
    dead = abandoned(place)
    with (dead / LOCK).open() as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        sweep_temporary()
        assert dead.exists()
    sweep_temporary()
    assert not dead.exists()


@pytest.mark.fault(area="Disk", tried="the place for temporary files {what}", happens="one error, exit status 2")
@pytest.mark.parametrize("what", ["is absent", "is a file"])
def test_no_place_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    if what == "is a file":
        (tmp_path / "place").touch()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "place"))
    with pytest.raises(ScratchError, match="No temporary directory can be made in"), scratch_directory():
        pytest.fail("made")
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "--golden", ".", "--candidate", ".", "--run", "python -c pass"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"traincheck: error: No temporary directory can be made in {tmp_path / 'place'}: ")
    assert "set TMPDIR" in said


@pytest.mark.fault(area="Disk", tried="no space for temporary files", happens="one error that says so")
def test_a_disk_that_is_full(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's own answer: nothing can be written to this device."""
    real = os.open

    def full(path: object, flags: int, *more: int, **options: int) -> int:
        if str(path).endswith(f"{LOCK}.new"):
            return real("/dev/full", os.O_WRONLY)
        return real(path, flags, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(scratch.os, "open", full)
    with pytest.raises(ScratchError, match="cannot be written: No space left on device"), scratch_directory():
        pytest.fail("made")
    assert list(place.iterdir()) == []
