"""`traincheck --help` and completion in shells."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_traincheck.cli.main import build_parser, main
from pytest_traincheck.cli.moments import MOMENTS, SHELLS


@pytest.mark.parametrize("width", ["80", "120"])
def test_every_command_stands_under_one_moment(
    width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert all(len(line) <= int(width) for line in said.splitlines())
    (commands,) = (action.choices for action in build_parser()._actions if action.dest == "command")
    assert commands is not None
    listed = [name for names in MOMENTS.values() for name in names]
    assert sorted([*listed, "status"]) == sorted(commands)
    assert all(f"\n  {name} " in said for name in listed)
    assert all(f"\n{title}:\n" in said for title in MOMENTS)


def test_help_of_a_command_is_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    said = capsys.readouterr().out
    assert "--golden" in said
    assert "check a change" not in said


@pytest.mark.parametrize("shell", SHELLS)
def test_completion(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    with pytest.raises(SystemExit) as ended:
        main(["--completion", shell])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert "bisect" in said
    assert "junit" in said


def test_bash_completes_commands_and_options() -> None:
    pytest.importorskip("shtab")
    script = subprocess.run(
        [sys.executable, "-m", "pytest_traincheck", "--completion", "bash"], capture_output=True, text=True, check=True
    ).stdout
    asked = """
    COMP_WORDS=(traincheck "$@"); COMP_CWORD=$#
    $(complete -p traincheck | sed 's/.*-F \\([^ ]*\\) .*/\\1/') traincheck "${@: -1}" ""
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    for words, expected in ((["bis"], "bisect"), (["check", "--juni"], "--junit")):
        done = subprocess.run(
            ["bash", "-c", script + asked, "bash", *words], capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == [expected], done.stderr


def test_without_shtab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(SystemExit) as ended:
        main(["--completion", "bash"])
    assert ended.value.code == 2
    assert "pip install 'pytest-traincheck[completion]'" in capsys.readouterr().err
