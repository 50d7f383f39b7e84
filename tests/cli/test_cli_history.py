"""`--history` and `traincheck history`: a line for each check, and what many lines tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_traincheck.cli import main


def checked(*words: str) -> int:
    return main(["check", "--golden", "golden", "--history", "kept/ci.jsonl", *words])


@pytest.fixture(autouse=True)
def _a_branch_of_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_HEAD_REF", "tidy")
    monkeypatch.setenv("COLUMNS", "150")


def test_each_check_adds_a_line(project: Path, fake) -> None:
    assert checked() == 0
    fake.broken = ("torch.optim.SGD.step",)
    assert checked() == 1
    first, second = (json.loads(line) for line in (project / "kept" / "ci.jsonl").read_text().splitlines())
    assert (first["verdict"], second["verdict"]) == ("pass", "fail")
    assert (first["command"], first["branch"], first["pipelines"][0]["pipeline"]) == ("check", "tidy", "net")
    (incident,) = second["pipelines"][0]["incidents"]
    assert incident["subject"] == "torch.optim.SGD.step"


def test_the_lines_are_told(project: Path, fake, capsys) -> None:
    checked()
    fake.broken = ("torch.optim.SGD.step",)
    checked()
    fake.broken = ()
    checked()
    capsys.readouterr()
    assert main(["history", "kept/ci.jsonl", "--html", "page.html", "--json", "all.json"]) == 0
    said = capsys.readouterr().out
    assert "3 runs" in said
    assert "what broke" in said
    assert "seen once; gone at" in said
    assert (project / "page.html").read_text().startswith("<!doctype html>")
    assert json.loads((project / "all.json").read_text())["pipelines"][0]["verdicts"] == {
        "pass": 2,
        "fail": 1,
        "error": 0,
    }


@pytest.mark.usefixtures("project", "fake")
def test_what_cannot_be_told_is_one_error(capsys) -> None:
    checked()
    assert main(["history", "kept/ci.jsonl", "--pipeline", "ne"]) == 2
    assert "no run of this history has a pipeline 'ne'. It has: net." in capsys.readouterr().err
    Path("kept/ci.jsonl").write_text('{"format": 1}\n')
    assert main(["history", "kept/ci.jsonl"]) == 2
    assert "ci.jsonl, line 1: `when` is missing" in capsys.readouterr().err
    Path("kept/ci.jsonl").write_text("")
    assert main(["history", "kept/ci.jsonl"]) == 2
    assert "holds no run. Add some with `traincheck check --history FILE`" in capsys.readouterr().err


@pytest.mark.usefixtures("project", "fake")
def test_a_history_that_cannot_be_written_is_bad_input(capsys) -> None:
    Path("file").touch()
    assert main(["check", "--golden", "golden", "--history", "file/ci.jsonl"]) == 2
    assert "Cannot add to the history file/ci.jsonl" in capsys.readouterr().err
