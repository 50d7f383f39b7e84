"""The progress line: live at a terminal, a line a minute elsewhere."""

from __future__ import annotations

import io
import os
import pty
import select
import threading

import pytest

from pytest_traincheck.launch.progress import LogProgress, TerminalProgress, progress_for


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_log_gets_no_line_in_the_first_minute_and_then_one_a_minute() -> None:
    clock, lines = Clock(), list[str]()
    progress = LogProgress(lines.append, clock)
    progress.expect(4)
    for seed in range(3):
        progress.start(f"golden, seed {seed}: python train.py")
        for _ in range(80):
            clock.now += 0.5
            progress.update(0.0)
        progress.finish("")
        progress.ran()
    assert lines == [
        "traincheck: 1 of 4 runs, about 100 s left: golden, seed 1: python train.py".replace("100 s", "2 min"),
        "traincheck: 2 of 4 runs, about 40 s left: golden, seed 2: python train.py",
    ]


def test_a_log_is_what_is_no_terminal() -> None:
    stream = io.StringIO()
    progress = progress_for(stream)
    assert isinstance(progress, LogProgress)
    progress.start("golden, seed 0")
    progress.update(1.0)
    progress.finish("done")
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("name", "value"), [("CI", "true"), ("TERM", "dumb")])
def test_a_terminal_whose_lines_are_kept_is_a_log(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    leader, follower = pty.openpty()
    with os.fdopen(leader), os.fdopen(follower, "w") as stream:
        assert isinstance(progress_for(stream), TerminalProgress)
        monkeypatch.setenv(name, value)
        assert isinstance(progress_for(stream), LogProgress)


def test_what_runs_at_the_same_time_is_counted_and_halves_the_time_that_is_left() -> None:
    clock, lines = Clock(), list[str]()
    progress = LogProgress(lines.append, clock)
    progress.EVERY_S = 0.0
    progress.expect(6)
    progress.start("first")
    clock.now += 30
    progress.finish("")
    progress.ran()
    progress.start("second")
    beside = threading.Thread(target=progress.start, args=("third",))
    beside.start()
    beside.join()
    assert lines[-1] == "traincheck: 1 of 6 runs, about 75 s left: second and 1 more"


def test_a_terminal_sees_what_runs_and_for_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w") as terminal:
        progress = progress_for(terminal)
        assert isinstance(progress, TerminalProgress)
        progress.start("golden, seed 0: python train.py [red]--steps\n8")
        progress.update(12.34)
        progress.finish("golden, seed 0: 12.3 s")
        progress.finish("")
        terminal.flush()
        seen = ""
        # A terminal hands over what it got in pieces.
        while "seed 0: 12.3 s" not in seen and select.select([reader], [], [], 10)[0]:
            seen += os.read(reader, 65536).decode()
    os.close(reader)
    # Square brackets are the user's, not markup; a line break in a command must not break the line.
    assert " 12.3s  golden, seed 0: python train.py [red]--steps 8" in seen
    assert "golden, seed 0: 12.3 s" in seen
