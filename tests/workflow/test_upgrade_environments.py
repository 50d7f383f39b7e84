"""Which two environments an upgrade compares, and which code is golden."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_traincheck.config import Config
from pytest_traincheck.launch.git import git
from pytest_traincheck.launch.progress import QuietProgress
from pytest_traincheck.launch.sides import SideError
from pytest_traincheck.workflow.upgrade import golden_ref
from pytest_traincheck.workflow.upgrade_environments import find_environments


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(tmp_path, tmp_path / "pyproject.toml", python=sys.executable)


def test_an_environment_is_not_compared_with_itself(config: Config) -> None:
    with pytest.raises(SideError, match="the environments do not differ"):
        find_environments(config, (), sys.executable, QuietProgress())


def test_an_interpreter_that_is_not_there(config: Config) -> None:
    with pytest.raises(SideError, match="does not exist or is not executable"):
        find_environments(replace(config, python="no-such-python"), (), sys.executable, QuietProgress())


def test_golden_is_what_is_asked_for_else_configured_else_head_else_the_tree(config: Config) -> None:
    assert golden_ref(config, None) == str(config.root)
    git(config.root, "init", "--quiet")
    assert golden_ref(config, None) == str(config.root)
    git(
        config.root,
        "-c",
        "user.name=T",
        "-c",
        "user.email=t@example.org",
        "commit",
        "--quiet",
        "--allow-empty",
        "-m",
        "1",
    )
    assert golden_ref(config, None) == "HEAD"
    assert golden_ref(replace(config, golden="merge-base:main"), None) == "merge-base:main"
    assert golden_ref(config, "v1") == "v1"
