"""What commands print: as wide as the terminal, in colours only where they are wanted, and as much as is asked for."""

from __future__ import annotations

import io
import os
import pty
import re
import sys
from pathlib import Path

import pytest

from pytest_traincheck.cli import main, streams
from pytest_traincheck.cli.doctor import render as render_finding
from pytest_traincheck.cli.streams import Voice, speaking
from pytest_traincheck.detail import Detail
from pytest_traincheck.printable import PrintableStream
from pytest_traincheck.workflow.doctor import Finding, Level

pytestmark = pytest.mark.usefixtures("project")

COMPARE = ("compare", "--golden", "golden", "--candidate", "candidate", "--run", "python train.py")
COLOUR = re.compile(r"\x1b\[(?:\d;)*[349]\d[;m]")
LONG = Finding("goldens", Level.WRONG, "a directory " * 30 + "/a/very/long/path" * 20, "Run `traincheck refresh` " * 9)


def printed(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert main(list(words)) == status
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("words", [("list",), ("list", "-v"), ("check",), ("check", "-v"), COMPARE], ids=" ".join)
def test_lines_are_as_wide_as_the_terminal(fake, words, width, monkeypatch, capsys):
    fake.broken = ("torch.optim.SGD.step",)
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(list(words)) == (words[0] != "list")
    text = capsys.readouterr().out
    # A command is one line that can be pasted, broken with a backslash between options only.
    lines = [line for line in text.splitlines() if not line.startswith(("reproduce:", "if intended:", "   "))]
    # Columns of a table may stand apart; a line of text is not read over the whole of a wide screen.
    assert max(map(len, lines)) <= (width if words[0] == "list" else min(width, streams.WIDEST))
    assert "\x1b" not in text
    assert not any(line != line.rstrip() for line in lines)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_piece_of_the_doctor_keeps_its_columns(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    streams.show(render_finding(LONG))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("wrong  goldens          a directory")
    assert all(line.startswith(" " * 24) for line in lines[1:])


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, voice: Voice) -> str:
    """What a terminal is sent of a piece of the doctor."""
    leader, follower = pty.openpty()
    monkeypatch.setenv("TERM", "xterm-256color")
    with os.fdopen(leader, "rb", buffering=0) as reader, os.fdopen(follower, "w") as stream:
        monkeypatch.setattr(sys, "stdout", PrintableStream(stream))
        with speaking(voice):
            streams.show(render_finding(Finding("git", Level.FINE, "there")))
        stream.flush()
        return reader.read(4096).decode()


def test_colours_are_for_terminals_whose_user_wants_them(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert COLOUR.search(at_a_terminal(monkeypatch, Voice()))
    assert not COLOUR.search(at_a_terminal(monkeypatch, Voice(color=False)))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not COLOUR.search(at_a_terminal(monkeypatch, Voice()))


def test_quiet_is_the_verdict_and_what_is_wrong(fake, capsys):
    assert printed(capsys, "check", "-q") == "net: passed - all 3 rules held\n"
    fake.broken = ("torch.optim.SGD.step",)
    text = printed(capsys, "check", "-q", status=1)
    assert text.splitlines()[0].startswith("net: FAILED")
    assert "1. torch.optim.SGD.step was never called" in text
    assert "golden:" not in text
    assert "reproduce: traincheck check net" in text
    assert capsys.readouterr().err == ""


def test_names_alone_are_for_scripts(capsys):
    assert printed(capsys, "list", "-q") == "net\n"
    assert "python train.py" in printed(capsys, "list", "-v")
    assert "python train.py" not in printed(capsys, "list")


def test_a_golden_in_short(capsys):
    brief, usual = printed(capsys, "show", "net", "-q"), printed(capsys, "show", "net")
    assert len(brief.splitlines()) < len(usual.splitlines())
    assert printed(capsys, "diff", "net", "net", "-q") == "`net`: no change\n"


def test_an_error_says_where_it_was_raised_when_everything_is_wanted(capsys):
    Path("pyproject.toml").write_text("[tool.traincheck]\nzzz = 1\n")
    assert main(["list"]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert main(["list", "-v"]) == 2
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert said.splitlines()[-1].startswith("traincheck: error: ")


def test_quiet_shows_no_progress(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with speaking(Voice(Detail.BRIEF)):
        streams.progress().start("golden, seed 0")
        streams.remark("waiting")
    assert sys.stderr.getvalue() == ""
    streams.remark("waiting")
    assert sys.stderr.getvalue() == "traincheck: waiting\n"


def test_quiet_and_wordy_are_not_both(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["list", "-q", "-v"])
    assert ended.value.code == 2
    assert "not allowed with" in capsys.readouterr().err
