"""Runs beside each other: their results are those of runs one after another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pytest_traincheck.launch.run import RunOutcome, RunRequest, execute
from pytest_traincheck.workflow.overlap import Overlap, Stopped, look

JOBS = [1, 2, 4]


@pytest.mark.parametrize("jobs", JOBS)
def test_results_come_in_order_whoever_is_first(jobs: int) -> None:
    def task(number: int) -> int:
        time.sleep(0.05 * (3 - number))
        return number

    assert list(Overlap.of(jobs).each([partial(task, number) for number in range(3)])) == [0, 1, 2]


@pytest.mark.parametrize("jobs", JOBS)
def test_the_first_that_goes_wrong_is_told_of_and_those_behind_it_end(jobs: int) -> None:
    ended: list[str] = []

    def good() -> str:
        time.sleep(0.2)
        return "good"

    def bad() -> str:
        raise ValueError("bad")

    def behind() -> str:
        try:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                look()
                time.sleep(0.01)
        except Stopped:
            ended.append("behind")
            raise
        raise AssertionError("it was never told to stop")

    found = Overlap.of(jobs).each([good, bad, behind])
    assert next(found) == "good"
    with pytest.raises(ValueError, match="bad"):
        next(found)
    # With one job it never began; otherwise nothing of it is left once the error is there.
    assert ended in ([], ["behind"])
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("traincheck")]


def test_what_a_task_has_begun_ends_with_it() -> None:
    overlap = Overlap.of(2)
    begun, ended = threading.Event(), threading.Event()

    def inner() -> None:
        begun.set()
        try:
            while True:
                look()
                time.sleep(0.01)
        finally:
            ended.set()

    def outer() -> None:
        list(overlap.each([inner, inner]))

    def bad() -> None:
        assert begun.wait(30)
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - it has no text
        list(overlap.each([bad, outer]))
    assert ended.is_set()


def _runs(tmp_path: Path, jobs: int, script: str, count: int = 2, **options: object) -> list[RunOutcome]:
    """A script without torch in so many real runs; it may write to the tree in which it lies."""
    tree = tmp_path / "tree"
    tree.mkdir(exist_ok=True)
    (tree / "script.py").write_text(script)
    overlap = Overlap.of(jobs)

    def request(number: int) -> RunRequest:
        watched = {"watched": (tree,), **options}
        return RunRequest(f"python script.py {number}", tree, tmp_path / f"run{number}", **watched)  # type: ignore[arg-type]

    def run(number: int) -> RunOutcome:
        return overlap.run(execute, request(number), lambda _seconds: None)

    tasks: list[Callable[[], RunOutcome]] = [partial(run, number) for number in range(count)]
    return list(overlap.each(tasks))


PORT = """
import socket, sys, time
with socket.socket() as taken:
    taken.bind(("127.0.0.1", PORT))
    time.sleep(1.5)
"""


@pytest.mark.fault(
    area="Processes",
    tried="two runs at a time (`--jobs 2`) that listen on the same port",
    happens="the one that failed is made again by itself, and passes; a note says how to spare the first attempt",
)
def test_a_port_that_the_neighbour_has_taken_costs_a_second_attempt(tmp_path: Path) -> None:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    outcomes = _runs(tmp_path, 2, PORT.replace("PORT", str(port)))
    assert [outcome.message for outcome in outcomes] == ["", ""]
    (note,) = [note for outcome in outcomes for note in outcome.notes]
    assert "was made again by itself, where it ended well" in note
    assert "`alone = true`" in note


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_goes_wrong_alone_goes_wrong(tmp_path: Path, jobs: int) -> None:
    outcomes = _runs(tmp_path, jobs, "import time; time.sleep(0.5); raise SystemExit(3)")
    assert [outcome.exit_code for outcome in outcomes] == [3, 3]
    assert [outcome.notes for outcome in outcomes] == [(), ()]


@pytest.mark.fault(
    area="Processes",
    tried="two runs at a time in one tree, one of which writes to it",
    happens="each is told of its own files: what could be either's is found out by runs one after another",
)
@pytest.mark.parametrize("jobs", [1, 2])
def test_each_run_is_told_of_its_own_files_alone(tmp_path: Path, jobs: int) -> None:
    script = "import sys, time, pathlib; time.sleep(0.5)\nif sys.argv[1] == '1': pathlib.Path('made').write_text('x')"
    first, second = _runs(tmp_path, jobs, script)
    assert not first.written
    assert [footprint.created for footprint in second.written] == [("made",)]
    # The other one had nothing to do with it, and its user nothing to do.
    assert not first.notes
    assert len(second.notes) == jobs - 1


def test_who_writes_to_the_tree_is_by_itself_from_then_on(tmp_path: Path) -> None:
    script = "import os, time, pathlib; time.sleep(0.4); pathlib.Path('made').write_text(str(os.getpid()))"
    overlap = Overlap.of(2)
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "script.py").write_text(script)
    made: list[str] = []

    def counted(request: RunRequest, progress: Callable[[float], None]) -> RunOutcome:
        made.append(request.run_dir.name)
        return execute(request, progress)

    def run(number: int) -> RunOutcome:
        request = RunRequest("python script.py", tree, tmp_path / f"run{number}", watched=(tree,))
        return overlap.run(counted, request, lambda _seconds: None)

    list(overlap.each([partial(run, number) for number in (0, 1)]))
    assert sorted(made) == ["run0", "run0", "run1", "run1"]
    list(overlap.each([partial(run, number) for number in (2, 3)]))
    assert sorted(made[4:]) == ["run2", "run3"]
