"""Small real pipelines and repositories for the launcher's tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_traincheck.launch.run import RunRequest


@pytest.fixture(autouse=True)
def _no_foreign_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """The developer's own git configuration does not decide these tests."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "tester")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "tester@example.invalid")


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a report breaks its lines depends on how long the paths are; here the sentences matter."""
    monkeypatch.setenv("COLUMNS", "1000")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    return directory


@pytest.fixture
def request_for(project: Path, tmp_path: Path) -> Callable[..., RunRequest]:
    def make(command: str, **options: object) -> RunRequest:
        values: dict[str, object] = {
            "cwd": project,
            "run_dir": tmp_path / "run",
            "timeout": 30.0,
            "python": sys.executable,
        }
        return RunRequest(command, **{**values, **options})  # type: ignore[arg-type]

    return make


def run_git(directory: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=directory, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def git() -> Callable[..., str]:
    return run_git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits: `sub/value.txt` says "old", then "new"; the first is tagged v1."""
    top = tmp_path / "repo"
    (top / "sub").mkdir(parents=True)
    run_git(top, "init", "--quiet", "--initial-branch=main")
    (top / "sub" / "value.txt").write_text("old")
    run_git(top, "add", ".")
    run_git(top, "commit", "--quiet", "-m", "old")
    run_git(top, "tag", "v1")
    (top / "sub" / "value.txt").write_text("new")
    run_git(top, "commit", "--quiet", "-am", "new")
    return top
