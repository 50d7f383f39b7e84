"""A disk that is full, or a file that may not grow: the one remedy is named, and nothing is left half written."""

from __future__ import annotations

import contextlib
import errno
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from training_story import Loop, Training

from pytest_traincheck.cli import main
from pytest_traincheck.disk import full_disk_in, write_remedy
from pytest_traincheck.trace import TraceError, load_run

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "golden_invariants" / "mnist_cnn.jsonl"

COMMAND = "import sys; from pytest_traincheck.cli import main; sys.exit(main())"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    training = Training(tmp_path / "run")
    Loop(steps=3).tell(training)
    return training.write().parent


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Within the block no file grows beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def left(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith(".traincheck"))


@pytest.mark.fault(
    area="Disk", tried="a golden may not grow", happens="`free disk space`, exit status 2, no partial golden"
)
def test_a_golden(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "store"
    with files_of_at_most(1000):
        status = main(["infer", str(run), "--output", str(store / "g.jsonl")])
    shown = capsys.readouterr().err
    assert (status, "Traceback" in shown, "bug" in shown) == (2, False, False)
    assert "free disk space on /" in shown
    assert left(store) == []


@pytest.mark.fault(
    area="Disk", tried="{option} of a refused golden may not grow", happens="`free disk space`, status 2, no part"
)
@pytest.mark.parametrize("option", ["--json", "--html", "--junit"])
def test_reports(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traincheck.toml").write_text('[pipelines.g]\nrun = "true"\n')
    with files_of_at_most(100):
        status = main(["check", option, "reports/out"])
    shown = capsys.readouterr().err
    assert (status, "Traceback" in shown) == (2, False)
    assert "free disk space on /" in shown
    assert left(tmp_path / "reports") == []


@pytest.mark.fault(
    area="Disk", tried="stdout is full (`> /dev/full`)", happens="`free disk space`, exit status 2, no traceback"
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_stdout() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, "show", GOLDEN],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "No space left on device. Free disk space on" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB; only root may make one."""
    place = tmp_path / "tiny"
    place.mkdir()
    mount = shutil.which("mount")
    made = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], check=False, capture_output=True
    )
    if not made or made.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.fault(
    area="Disk", tried="a file system that is full", happens="it is named: `free disk space on` its mount point"
)
def test_a_full_file_system(tiny_disk: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(OSError):
        (tiny_disk / "filler").write_bytes(bytes(64 * 1024 - 4096))
        (tiny_disk / "filler2").write_bytes(bytes(64 * 1024))
    assert main(["infer", str(run), "--output", str(tiny_disk / "g.jsonl")]) == 2
    assert f"ree disk space on {tiny_disk}" in capsys.readouterr().err


@pytest.mark.fault(
    area="Disk", tried="the probe could not write: {name}", happens="`free disk space`, not a bug of ours"
)
@pytest.mark.parametrize(
    ("name", "number"), [("disk full", 28), ("quota", errno.EDQUOT), ("largest file", errno.EFBIG)]
)
def test_a_trace(name: str, number: int, tmp_path: Path) -> None:
    training = Training(tmp_path)
    Loop(steps=3).tell(training)
    failure = {"where": "writing events.bin", "error": f"OSError: [Errno {number}] {name}"}
    training.write(probe_errors=[failure], probe_error_count=1, lost_events=5)
    with pytest.raises(TraceError, match="free disk space on /") as caught:
        load_run(tmp_path)
    assert "bug" not in str(caught.value)


def test_other_errors_have_other_remedies(tmp_path: Path) -> None:
    denied = PermissionError(errno.EACCES, "Permission denied", str(tmp_path))
    assert write_remedy(denied, tmp_path, "Give another path.") == "Give another path."
    assert full_disk_in("OSError: [Errno 13] Permission denied", tmp_path) == ""
    assert full_disk_in("ValueError: no number", tmp_path) == ""
