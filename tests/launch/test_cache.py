"""The cache: found by key, written whole or not at all, one process at a time, bounded."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_traincheck.launch.cache import MARK, VARIABLE, Cache, CacheBusyError, cache_directory

DAY = 24 * 3600.0


def cache_in(directory: Path, max_bytes: int = 1000) -> Cache:
    return Cache(directory / "cache", max_bytes, 60 * DAY)


def keep(cache: Cache, key: str, text: str = "content", days_ago: float = 0.0) -> Path:
    with cache.hold(key, 1):
        entry = cache.keep(key, lambda directory: (directory / "file").write_text(text) and None)
    used = time.time() - days_ago * DAY
    os.utime(entry, (used, used))
    return entry


def held(cache: Cache) -> set[str]:
    return {path.name for path in cache.directory.iterdir() if path.is_dir()}


def test_what_was_kept_is_found_and_can_be_replaced(tmp_path: Path) -> None:
    cache = cache_in(tmp_path)
    assert cache.find("a1") is None
    keep(cache, "a1", "old")
    keep(cache, "a1", "new")
    entry = cache.find("a1")
    assert entry is not None
    assert (entry / "file").read_text() == "new"
    assert held(cache) == {"a1"}


def test_an_entry_that_could_not_be_made_leaves_the_former_one(tmp_path: Path) -> None:
    cache = cache_in(tmp_path)
    entry = keep(cache, "a1", "old")

    def fail(directory: Path) -> None:
        (directory / "file").write_text("half")
        raise OSError(28, "No space left on device")

    with cache.hold("a1", 1), pytest.raises(OSError, match="No space"):
        cache.keep("a1", fail)
    assert (entry / "file").read_text() == "old"
    assert held(cache) == {"a1"}


def test_the_longest_unused_go_first_when_there_is_too_much(tmp_path: Path) -> None:
    cache = cache_in(tmp_path, max_bytes=250)
    for key, days in (("a1", 3), ("b2", 1), ("c3", 2)):
        keep(cache, key, "x" * 100, days)
    assert held(cache) == {"b2", "c3"}
    assert cache.find("c3") is not None  # it counts as used now
    keep(cache, "d4", "x" * 100)
    assert held(cache) == {"c3", "d4"}


def test_what_was_not_used_for_long_goes_and_so_does_what_was_left_half_made(tmp_path: Path) -> None:
    cache = cache_in(tmp_path)
    keep(cache, "a1", days_ago=61)
    keep(cache, "b2", days_ago=59)
    for name, days in ((".new-x", 2), (".old-y", 2), (".new-z", 0.1)):
        (cache.directory / name).mkdir()
        (cache.directory / name / MARK).touch()
        used = time.time() - days * DAY
        os.utime(cache.directory / name, (used, used))
    keep(cache, "c3")
    assert held(cache) == {"b2", "c3", ".new-z"}


@pytest.mark.fault(
    area="Disk",
    tried="`TRAINCHECK_CACHE_DIR` names a place with other directories",
    happens="they are neither used nor removed, however old",
)
def test_directories_that_are_no_entries_stay(tmp_path: Path) -> None:
    """The place of the cache is a variable, and may have held something else before."""
    cache = cache_in(tmp_path, max_bytes=0)
    for name in ("thesis", ".new-year", "a1"):
        (cache.directory / name).mkdir(parents=True)
        (cache.directory / name / "text").write_text("mine")
        os.utime(cache.directory / name, (0, 0))
    keep(cache, "c3")
    cache.drop("a1")
    assert cache.find("a1") is None
    with pytest.raises(OSError, match="not empty"):
        keep(cache, "a1")
    assert all((cache.directory / name / "text").exists() for name in ("thesis", ".new-year", "a1"))
    assert held(cache) == {"thesis", ".new-year", "a1", "c3"}


def test_what_another_process_holds_is_neither_removed_nor_shared(tmp_path: Path) -> None:
    cache = cache_in(tmp_path, max_bytes=0)
    keep(cache, "a1")
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom pytest_traincheck.launch.cache import Cache\n"
        "with Cache(Path(sys.argv[1]), 0, 1e9).hold('a1', 5):\n print('held', flush=True)\n sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(cache.directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    waited: list[bool] = []
    with pytest.raises(CacheBusyError), cache.hold("a1", 0.2, lambda: waited.append(True)):
        pytest.fail("two at once")
    assert waited == [True]
    keep(cache, "b2")
    assert held(cache) == {"a1", "b2"}
    # A killed process holds nothing.
    holder.kill()
    holder.communicate()
    with cache.hold("a1", 5):
        pass
    keep(cache, "c3")
    assert held(cache) == {"c3"}


def test_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert cache_directory("goldens") == tmp_path / "goldens"
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory("goldens") == tmp_path / "xdg" / "traincheck" / "goldens"
