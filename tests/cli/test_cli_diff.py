"""`traincheck diff` with what people type: files, names of pipelines, and git refs."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_traincheck.cli import main
from pytest_traincheck.golden import store
from pytest_traincheck.relations.stored import read_golden


def git(*words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")
    subprocess.run(["git", *identity, *words], check=True, capture_output=True)


pytestmark = pytest.mark.usefixtures("history")


@pytest.fixture
def history(project: Path) -> Path:
    """Two commits: `main`, and `feature`, whose golden lacks a rule and which has a golden more."""
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "one")
    git("checkout", "-qb", "feature")
    path = project / "golden_invariants" / "net.jsonl"
    golden = read_golden(path)
    store.write(path, replace(golden, invariants=golden.invariants[1:]))
    store.write(path.with_name("gan.jsonl"), replace(golden, pipeline="gan"))
    configuration = project / "pyproject.toml"
    configuration.write_text(configuration.read_text() + "[tool.traincheck.pipelines.gan]\nrun = 'python gan.py'\n")
    git("add", ".")
    git("commit", "-qm", "two")
    return project


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["diff", *words]) == 0
    return capsys.readouterr().out


def test_two_refs(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "main", "feature")
    assert "### `net`: 1 rule differs (1 removed)" in text
    assert "`gan`: 3 rules at feature, no golden on the other side" in text


def test_a_ref_and_the_working_tree(capsys: pytest.CaptureFixture[str]) -> None:
    assert "(1 removed)" in said(capsys, "HEAD~1", "net")
    assert said(capsys, "HEAD", "net", "-q") == "`net`: no change\n"
    assert "(1 added)" in said(capsys, "golden_invariants/net.jsonl", "main")


def test_the_name_of_a_pipeline_comes_before_a_ref(capsys: pytest.CaptureFixture[str]) -> None:
    git("branch", "net", "main")
    assert said(capsys, "net", "net", "-q") == "`net`: no change\n"


def test_what_is_neither(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "nowhere", "feature"]) == 2
    assert "There is no golden at nowhere" in capsys.readouterr().err


def test_commits_without_goldens(capsys: pytest.CaptureFixture[str]) -> None:
    git("rm", "-rq", "golden_invariants")
    git("commit", "-qm", "three")
    assert said(capsys, "HEAD", "HEAD") == "neither HEAD nor HEAD has a golden of a configured pipeline\n"
