"""After a replay it is said how to reproduce and how to accept, in words that the bundle cannot choose."""

from __future__ import annotations

import datetime
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from recipes import SPEC, Keep
from training_story import Loop, Recorder

from pytest_traincheck.check.result import Commands
from pytest_traincheck.cli.main import main
from pytest_traincheck.config import load
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.workflow.replay import replay_bundle
from pytest_traincheck.workflow.replay_next_steps import test_of as node_id_of

BROKEN = Loop(steps=6).but(zero_grad="never")
STORED = Commands(("traincheck", "check", "story"), ("traincheck", "refresh", "story", "--accept", "0"))
LIVE = Commands(("traincheck", "check", "story", "--golden", "main"), ("traincheck", "accept", "0"))
TEST = Commands(("pytest", "tests/test_net.py::test_net"), ("pytest", "--traincheck-refresh"))


@pytest.fixture
def golden(recorder: Recorder) -> Golden:
    return recorder.golden(Loop(steps=6))


def shown(bundle: Path) -> tuple[str, str, list[str]]:
    """Both commands, and the ids of the incidents."""
    result = replay_bundle(bundle)
    assert result.commands is not None
    ids = [incident.id for incident in result.incidents]
    return " ".join(result.commands.reproduce), " ".join(result.commands.accept), ids


def test_a_stored_golden_is_refreshed(golden: Golden, keep: Keep) -> None:
    _, bundle = keep(golden, BROKEN, commands=STORED)
    reproduce, accept, (identity,) = shown(bundle)
    assert reproduce == "traincheck check story"
    assert accept == f'traincheck refresh story --accept {identity} --reason "..."'


def test_an_exception_is_made_from_the_bundle(
    golden: Golden, keep: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that is shown, with a reason, in a clone that has never run the check."""
    _, bundle = keep(golden, BROKEN, commands=LIVE)
    reproduce, accept, (identity,) = shown(bundle)
    assert reproduce == "traincheck check story --golden c0ffeec0ffee"
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "traincheck.toml").write_text("[pipelines.story]\nrun = 'python train.py'\n")
    monkeypatch.chdir(clone)
    words = shlex.split(accept)
    assert words[:3] == ["traincheck", "accept", identity]
    words[words.index("--owner") + 1], words[words.index("--reason") + 1] = "vision", "until it is mended"
    assert main(words[1:]) == 0, capsys.readouterr().err
    (first, *_) = load(clone).accept
    assert (first.owner, first.expires > datetime.date.today()) == ("vision", True)
    # A file that is no bundle is read as a report, and says so.
    (clone / "result.json").write_text("[]")
    assert main([*words[1:-1], "result.json"]) == 2


def test_a_test_is_run_by_its_name(golden: Golden, keep: Keep) -> None:
    spec = replace(SPEC, run="pytest 'tests/test_net.py::test_net[a b]'")
    _, bundle = keep(golden, BROKEN, spec=spec, commands=TEST)
    reproduce, accept, (identity,) = shown(bundle)
    assert reproduce == "pytest 'tests/test_net.py::test_net[a b]'"
    assert accept == f"pytest --traincheck-refresh 'tests/test_net.py::test_net[a b]' --traincheck-accept {identity}"


def test_without_commands_there_are_none(golden: Golden, keep: Keep) -> None:
    _, bundle = keep(golden, BROKEN)
    assert replay_bundle(bundle).commands is None


@pytest.mark.parametrize(
    "commands",
    [
        Commands(("rm", "-rf", "~"), ("traincheck", "refresh", "story", "; rm -rf ~")),
        Commands(("traincheck", "check", "story", "&&", "rm", "-rf", "~"), ("traincheck", "accept", "$(rm -rf ~)")),
        Commands(("rm", "-rf", "~"), ("rm", "-rf", "~")),
        Commands(("rm", "-rf", "~"), ("pytest", "-p", "rm")),
    ],
)
def test_a_bundle_cannot_choose_what_is_pasted(golden: Golden, keep: Keep, commands: Commands) -> None:
    spec = replace(SPEC, run="pytest '-p rm' tests", name="story")
    _, bundle = keep(golden, BROKEN, spec=spec, commands=commands)
    found = replay_bundle(bundle).commands
    assert found is None or "rm" not in " ".join((*found.reproduce, *found.accept)).split("--")[0]


@pytest.mark.parametrize("name", ["story; rm", "-p", "../story", "a\nb"])
def test_a_name_that_no_pipeline_can_have_gets_no_command(golden: Golden, keep: Keep, name: str) -> None:
    _, bundle = keep(golden, BROKEN, spec=replace(SPEC, name=name), commands=STORED)
    assert replay_bundle(bundle).commands is None


@pytest.mark.parametrize(
    "command", ["pytest", "pytest -p x", "pytest --pdb", "pytest 'a\u202eb'", "python train.py", "pytest 'x"]
)
def test_what_is_no_test_is_not_taken_for_one(command: str) -> None:
    assert node_id_of(command) == ""
