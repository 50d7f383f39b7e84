"""`traincheck list`: what it says of pipelines, goldens and last checks."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from pytest_traincheck.cli import main
from pytest_traincheck.cli.listing import ago
from pytest_traincheck.launch.cache import VARIABLE


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("COLUMNS", "200")


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["list", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("project")
def test_a_pipeline_with_a_golden_and_no_check(capsys) -> None:
    assert re.search(r"^net +3 rules, at commit c0ffee, just now +none *$", listed(capsys), re.MULTILINE)


@pytest.mark.usefixtures("project")
def test_the_last_check_is_told(fake, capsys) -> None:
    fake.broken = ("torch.optim.SGD.step",)
    assert main(["check", "--golden", "golden"]) == 1
    assert "failed with 1 incident just now" in listed(capsys)


def test_a_golden_of_another_command_says_so(project: Path, capsys) -> None:
    place = project / "pyproject.toml"
    place.write_text(place.read_text().replace("train.py", "train.py --steps 9"))
    assert "learned with another command or other settings: `traincheck refresh net` learns it again" in listed(capsys)


def test_a_golden_that_is_missing_or_cannot_be_read(project: Path, capsys) -> None:
    file = project / "golden_invariants" / "net.jsonl"
    file.write_text("<<<<<<< ours\n")
    assert re.search(r"^net +cannot be read: ", listed(capsys), re.MULTILINE)
    file.unlink()
    assert "none: `traincheck refresh net` learns it" in listed(capsys)


def test_a_golden_that_is_learned_at_each_check(project: Path, capsys) -> None:
    place = project / "pyproject.toml"
    place.write_text("[tool.traincheck]\ngolden = 'main'\n" + place.read_text())
    assert re.search(r"^net +learned from main at each check ", listed(capsys), re.MULTILINE)


def test_the_time_is_that_of_the_commit_of_the_file(project: Path, capsys) -> None:
    subprocess.run(["git", "init", "--quiet"], check=True)
    subprocess.run(["git", "add", "."], check=True)
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    when = {"GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z", "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z"}
    subprocess.run(
        ["git", *who, "commit", "--quiet", "-m", "golden"], check=True, env={**when, "PATH": "/usr/bin:/bin"}
    )
    found = json_of(project, capsys)
    assert found["golden"]["changed"] == 1577836800.0
    assert "days ago" in listed(capsys)


def test_json(project: Path, capsys) -> None:
    found = json_of(project, capsys)
    assert found["name"] == "net"
    assert found["command"] == "python train.py"
    assert found["golden"]["fits"] is True
    assert (found["ref"], found["problem"], found["last"]) == ("", "", None)


def json_of(project: Path, capsys) -> dict[str, object]:
    listed(capsys, "--json", str(project / "list.json"))
    document = json.loads((project / "list.json").read_text())
    assert document["format"] == 1
    (found,) = document["pipelines"]
    return found


@pytest.mark.parametrize("name", ["list", "status"])
def test_without_a_configuration(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([name]) == 2
    assert "traincheck" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(3, "just now"), (60, "1 minute ago"), (7300, "2 hours ago"), (90000, "1 day ago"), (-5, "just now")],
)
def test_ago(seconds: float, said: str) -> None:
    assert ago(seconds) == said
