"""The files of a trace grow while a program's own signal handlers raise."""

from __future__ import annotations

import itertools
import mmap
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("torch")

from pytest_traincheck.probe.core import native
from pytest_traincheck.probe.core.short_ways import CoreWriter
from pytest_traincheck.probe.writer import ROW, TraceWriter

DESCRIPTORS = Path("/proc/self/fd")
WRITERS = [TraceWriter, pytest.param(CoreWriter, marks=pytest.mark.skipif(native is None, reason="it is not built"))]


class Timeout(Exception):
    pass


@pytest.fixture
def guarded() -> Iterator[None]:
    """A timeout guard as programs have it: its handler raises."""

    def raises(*_: object) -> None:
        raise Timeout

    before = signal.signal(signal.SIGALRM, raises)
    yield
    signal.signal(signal.SIGALRM, before)


def descriptors() -> int:
    return sum(1 for _ in DESCRIPTORS.iterdir())


def write(writer: TraceWriter, clock: Iterator[int]) -> None:
    writer.change(clock, 1, 2, 3, 4, 5, 0, 1, 7, 1.0)


def time_to_grow(kind: type[TraceWriter], directory: Path) -> float:
    """Seconds, the least of a few times."""
    found = []
    for _ in range(5):
        writer, clock = kind(directory), itertools.count()
        full = writer._room
        while writer.rows < full:
            write(writer, clock)
        begin = time.perf_counter()
        write(writer, clock)
        found.append(time.perf_counter() - begin)
        writer.close(finished=True)
    return min(found)


@pytest.mark.usefixtures("guarded")
@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="no list of open descriptors")
@pytest.mark.parametrize("kind", WRITERS)
def test_a_timeout_while_the_file_grows_loses_no_row_and_leaves_no_descriptor(
    kind: type[TraceWriter], tmp_path: Path
) -> None:
    before, takes = descriptors(), time_to_grow(kind, tmp_path)
    for delay in range(60):
        writer, clock = kind(tmp_path), itertools.count()
        full = writer._room
        while writer.rows < full:
            write(writer, clock)
        with suppress(Timeout):
            signal.setitimer(signal.ITIMER_REAL, max(5e-6, takes * delay / 50))
            while True:
                write(writer, clock)
        for _ in range(10):
            write(writer, clock)
        rows = writer.rows
        assert writer.lost == 0
        writer.close(finished=True)
        assert not writer.errors
        written = (writer.directory / "events.bin").read_bytes()
        assert len(written) == rows * ROW.size
        assert not written[:: ROW.size].count(0), "every row has its kind"
    assert descriptors() == before


def faults(work: Callable[[], None]) -> int:
    """Pages that this process was given meanwhile."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    work()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def faults_of_a_file(path: Path, size: int, written: bool) -> int:
    """Pages for stores into a file of `size` bytes, which were written before, or are reserved alone."""
    with path.open("xb+") as file:
        os.posix_fallocate(file.fileno(), 0, size)
        if written:
            os.pwrite(file.fileno(), bytes(size), 0)
        with mmap.mmap(file.fileno(), size) as memory:

            def store() -> None:
                for place in range(0, size, mmap.PAGESIZE):
                    memory[place] = 1

            return faults(store)


def faults_of_rows(kind: type[TraceWriter], directory: Path) -> int:
    """Pages for rows that fill three times the room that a file grows by."""
    writer, clock = kind(directory), itertools.count()
    rows = 3 * writer._room

    def write_all() -> None:
        while writer.rows < rows:
            write(writer, clock)

    found = faults(write_all)
    writer.close(finished=True)
    return found


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="room cannot be reserved alone")
@pytest.mark.parametrize("kind", WRITERS)
def test_rows_are_written_into_room_that_is_there_already(kind: type[TraceWriter], tmp_path: Path) -> None:
    """Least of a few times each: what the system writes to the disk meanwhile has to be made writable again."""
    size = 3 * (1 << 14) * ROW.size
    ready, reserved = (
        min(faults_of_a_file(tmp_path / f"{written}-{attempt}", size, written) for attempt in range(4))
        for written in (True, False)
    )
    if 2 * ready > reserved:
        pytest.skip("this file system makes a page for the first store into it, whatever was written before")
    assert min(faults_of_rows(kind, tmp_path) for _ in range(4)) < (ready + reserved) / 2


@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("kind", WRITERS)
def test_a_timeout_while_rows_are_written_leaves_no_room_between_them(kind: type[TraceWriter], tmp_path: Path) -> None:
    """A reader takes room without a row for the end."""
    writer, clock = kind(tmp_path), itertools.count(1)
    for turn in range(300):
        with suppress(Timeout):
            signal.setitimer(signal.ITIMER_REAL, (5 + turn % 30) * 1e-6)
            while True:
                write(writer, clock)
    rows = writer.rows
    writer.close(finished=True)
    written = (writer.directory / "events.bin").read_bytes()
    assert len(written) == rows * ROW.size
    assert not written[:: ROW.size].count(0)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_that_another_one_has_replaced_is_left_alone_and_that_is_told_once(
    kind: type[TraceWriter], tmp_path: Path
) -> None:
    writer, clock = kind(tmp_path), itertools.count()
    full = writer._room
    events = writer.directory / "events.bin"
    events.unlink()
    events.write_bytes(b"somebody else's")
    for _ in range(full + 3):
        write(writer, clock)
    assert (writer.rows, writer.lost) == (full, 3)
    writer.close(finished=True)
    assert [error["where"] for error in writer.errors] == ["writing events.bin"]
    assert "another file has taken its place" in writer.errors[0]["error"]
    assert events.read_bytes() == b"somebody else's"
