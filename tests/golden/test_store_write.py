"""Writing: atomic, one writer at a time, and nothing left behind when it fails."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import filelock
import pytest

from pytest_traincheck import atomic
from pytest_traincheck.golden import locks, store
from pytest_traincheck.golden.encode import encode
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden

WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from pytest_traincheck.golden import store

path, reason, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
golden = store.read(path)
for number in range(rounds):
    store.write(path, replace(golden, reason=reason * (number + 1)))
    store.read(path)
"""


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_two_writers_leave_one_valid_file(golden: Golden, tmp_path: Path) -> None:
    path = tmp_path / "tiny_gpt.jsonl"
    store.write(path, golden)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), reason, "60"], stderr=subprocess.PIPE)
        for reason in ("ab", "cdefg")
    ]
    for writer in writers:
        _, stderr = writer.communicate(timeout=120)
        assert writer.returncode == 0, stderr.decode()
    final = store.read(path)
    assert final.reason in ("ab" * 60, "cdefg" * 60)
    assert final.invariants == tuple(sorted(golden.invariants, key=lambda rule: rule.subject))
    assert names(tmp_path) - {store.LOCK_NAME} == {"tiny_gpt.jsonl"}


@pytest.mark.parametrize("store_name", ["file", "file/store"])
def test_a_store_that_is_a_file_cannot_be_written(golden: Golden, tmp_path: Path, store_name: str) -> None:
    (tmp_path / "file").write_text("not a directory")
    path = tmp_path / store_name / "tiny_gpt.jsonl"
    with pytest.raises(GoldenError, match=r"Cannot write .*tiny_gpt\.jsonl: Not a directory\. Make the directory"):
        store.write(path, golden)


def test_a_failed_write_keeps_the_old_file(golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tiny_gpt.jsonl"
    store.write(path, golden)
    before = path.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(GoldenError, match="No space left on device"):
        store.write(path, replace(golden, reason="another"))
    assert path.read_bytes() == before
    assert names(tmp_path) - {store.LOCK_NAME} == {"tiny_gpt.jsonl"}


def test_a_held_lock_is_named(golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "WRITE_TIMEOUT_S", 0.05)
    with (
        filelock.FileLock(tmp_path / store.LOCK_NAME),
        pytest.raises(GoldenError, match=r"another process has held .*\.traincheck\.lock"),
    ):
        store.write(tmp_path / "tiny_gpt.jsonl", golden)


def test_writing_again_without_a_change_touches_nothing(golden: Golden, tmp_path: Path) -> None:
    path = tmp_path / "tiny_gpt.jsonl"
    store.write(path, golden)
    before = path.stat()
    store.write(path, store.read(path))
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_permissions_and_links_stay(golden: Golden, tmp_path: Path) -> None:
    path = tmp_path / "real.jsonl"
    store.write(path, golden)
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o600)
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    changed = replace(golden, reason="another")
    store.write(link, changed)
    assert link.is_symlink()
    assert path.read_bytes() == encode(changed)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
