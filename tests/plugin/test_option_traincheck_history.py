"""`--traincheck-history`: a session adds one line, whatever xdist makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_traincheck.check.result import CheckResult

if TYPE_CHECKING:
    from conftest import Project

pytest_plugins = ["pytester"]

Results = dict[str, Callable[[str], CheckResult]]


def lines(project: Project) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (project.root / "kept" / "ci.jsonl").read_text().splitlines()]


def test_each_session_adds_a_line(project: Project, results: Results) -> None:
    project.run("--traincheck", "--traincheck-history=kept/ci.jsonl")
    project.set(results["failed"]("net"))
    result = project.run("--traincheck", "--traincheck-history=kept/ci.jsonl")
    result.stdout.fnmatch_lines(["history: *ci.jsonl"])
    first, second = lines(project)
    assert (first["command"], first["verdict"], second["verdict"]) == ("pytest", "pass", "fail")
    net = next(entry for entry in second["pipelines"] if entry["pipeline"] == "net")
    assert [incident["id"] for incident in net["incidents"]] == ["abc"]
    assert len(net["silent"]) == 1


def test_workers_of_xdist_add_one_line_together(project: Project) -> None:
    pytest.importorskip("xdist")
    project.run_apart("--traincheck", "-n2", "--dist=loadfile", "--traincheck-history=kept/ci.jsonl")
    (line,) = lines(project)
    assert sorted(entry["pipeline"] for entry in line["pipelines"]) == ["gan", "net"]


def test_a_history_that_cannot_be_written_fails_the_session(project: Project) -> None:
    (project.root / "file").touch()
    result = project.run("--traincheck", "--traincheck-history=file/ci.jsonl")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["Cannot add to the history *"])


def test_a_session_that_only_collects_adds_nothing(project: Project) -> None:
    project.run("--traincheck", "--collect-only", "--traincheck-history=kept/ci.jsonl")
    assert not (project.root / "kept").exists()
