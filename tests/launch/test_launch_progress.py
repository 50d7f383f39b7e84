"""The progress line: live at a terminal, silent elsewhere."""

from __future__ import annotations

import io
import os
import pty
import select

import pytest

from pytest_traincheck.launch.progress import QuietProgress, TerminalProgress, progress_for


def test_quiet_when_not_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    progress = progress_for(io.StringIO())
    assert isinstance(progress, QuietProgress)
    progress.start("golden, seed 0")
    progress.update(1.0)
    progress.finish("done")
    assert capfd.readouterr() == ("", "")


def test_a_terminal_sees_what_runs_and_for_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
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
