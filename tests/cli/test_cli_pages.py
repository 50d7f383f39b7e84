"""`--html` has the same name in every command that has something to show."""

from __future__ import annotations

from pathlib import Path

import pytest
from training_story import Loop, Training

from pytest_traincheck.cli import main


@pytest.mark.usefixtures("project", "fake")
def test_refresh_writes_a_page(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refresh", "net", "--reason", "smaller <net>", "--html", "refresh.html"]) == 0
    capsys.readouterr()
    text = (project / "refresh.html").read_text(encoding="utf-8")
    assert "Refresh of" in text
    assert "smaller &lt;net&gt;" in text


def test_trace_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training = Training(tmp_path / "run")
    Loop().tell(training)
    training.write()
    page = tmp_path / "trace.html"
    assert main(["trace", str(tmp_path / "run"), "--html", str(page)]) == 0
    assert f"wrote {page}" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert "What is called in step 1?" in text
    assert "torch.optim.AdamW.step" in text


def test_a_trace_of_nothing_says_why_there_are_no_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training = Training(tmp_path / "run")
    Loop(steps=0).tell(training)
    training.write()
    page = tmp_path / "trace.html"
    assert main(["trace", str(tmp_path / "run"), "--html", str(page)]) == 0
    capsys.readouterr()
    assert "There are no pictures: nothing was trained" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["check", "compare", "selftest", "upgrade", "bisect", "refresh", "trace", "audit"])
def test_every_command_knows_the_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "--html FILE" in capsys.readouterr().out
