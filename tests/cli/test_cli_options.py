"""One way to say a thing: the same option has the same name in every command and in pytest."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_traincheck import plugin
from pytest_traincheck.cli.main import build_parser, main
from pytest_traincheck.cli.old_names import OldName

ROOT = Path(__file__).parents[2]
MODES = {"--traincheck", "--traincheck-refresh"}
"""Of pytest alone, where there are no commands: what it is to do."""
PER_COMMAND = {"golden", "steps", "strict", "json", "output", "name", "pipeline"}
"""Said in other words where it is about something else: the golden may be a directory, a ref or a file."""


def commands() -> dict[str, argparse.ArgumentParser]:
    (found,) = (action.choices for action in build_parser()._actions if action.dest == "command")
    assert isinstance(found, dict)
    return found


def options() -> Iterator[tuple[str, argparse.Action]]:
    """Every option that stands in a help, with its command."""
    for command, parser in commands().items():
        for action in parser._actions:
            if action.option_strings and action.help != argparse.SUPPRESS:
                yield command, action


def plain(help_text: str | None) -> str:
    return re.sub(r"\(default: .*?\)|[^a-z ]", "", (help_text or "").lower()).strip()


def test_a_name_means_one_thing() -> None:
    by_name: dict[str, set[object]] = {}
    for _, action in options():
        for name in action.option_strings:
            by_name.setdefault(name, set()).add((action.dest, action.nargs, type(action)))
    assert {name: kinds for name, kinds in by_name.items() if len(kinds) > 1} == {}


def test_a_thing_has_one_name() -> None:
    by_dest: dict[str, set[tuple[str, ...]]] = {}
    by_words: dict[str, set[str]] = {}
    for _, action in options():
        if action.dest != "detail":  # which has -q for less and -v for more
            by_dest.setdefault(action.dest, set()).add(tuple(action.option_strings))
        if action.help:
            by_words.setdefault(plain(action.help), set()).add(action.option_strings[-1])
    assert {dest: names for dest, names in by_dest.items() if len(names) > 1} == {}
    assert {words: names for words, names in by_words.items() if len(names) > 1} == {}


def test_a_name_is_explained_alike() -> None:
    words: dict[str, set[str]] = {}
    for _, action in options():
        words.setdefault(action.dest, set()).add(plain(action.help))
    differing = {dest for dest, texts in words.items() if len(texts) > 1} - {"detail"}
    assert differing <= PER_COMMAND | {"python", "timeout", "reason", "run"}, differing


@pytest.mark.parametrize("command", sorted(commands()))
def test_every_command_can_be_quiet_wordy_and_without_colours(command: str) -> None:
    names = {name for action in commands()[command]._actions for name in action.option_strings}
    assert {"-q", "--quiet", "-v", "--verbose", "--no-color"} <= names


class Group:
    """Takes the options of the plugin down."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.hidden: list[str] = []
        self.ini: list[str] = []

    def getgroup(self, *_: str) -> Group:
        return self

    def addoption(self, name: str, **keywords: object) -> None:
        (self.hidden if keywords.get("help") == argparse.SUPPRESS else self.shown).append(name)

    def addini(self, name: str, *_: object, **__: object) -> None:
        self.ini.append(name)


def of_pytest() -> Group:
    group = Group()
    plugin.pytest_addoption(group)  # type: ignore[arg-type]
    return group


def test_pytest_uses_the_names_of_the_commands() -> None:
    known = {name for _, action in options() for name in action.option_strings}
    told = {name: name.replace("--traincheck-", "--") for name in of_pytest().shown if name not in MODES}
    assert {name for name, same in told.items() if same not in known} == set()
    unknown = {name for name in of_pytest().ini if f"--{name.replace('_', '-')}" not in of_pytest().shown}
    assert unknown == {"traincheck_report"}, "an old name"
    assert of_pytest().hidden == ["--traincheck-report"]


def test_the_table_of_the_documentation_is_complete() -> None:
    section = (ROOT / "docs" / "commands.md").read_text().partition("## One name, one meaning")[2].partition("\n## ")[0]
    rows = {
        re.findall(r"`(--[a-z-]+)", cells[0])[0]: cells[2]
        for line in section.splitlines()
        if line.startswith("| `") and (cells := [cell.strip() for cell in line.strip("|").split("|")])
    }
    users: dict[str, set[str]] = {}
    for command, action in options():
        if action.dest != "help":
            users.setdefault(action.option_strings[-1], set()).add("list" if command == "status" else command)
    in_pytest = {name for name in users if f"--traincheck{name[1:]}" in PYTEST}
    assert set(rows) == {name for name, names in users.items() if len(names) > 1} | in_pytest
    assert {name for name, cell in rows.items() if cell == f"`--traincheck{name[1:]}`"} == in_pytest


PYTEST = frozenset(of_pytest().shown)


@pytest.mark.parametrize(
    ("old", "now"), [(["--ref", "HEAD"], ["--golden", "HEAD"]), (["--all"], ["--accept-all"])], ids=str
)
def test_an_old_name_works_and_says_so(old: list[str], now: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    parser = build_parser()
    one, other = (vars(parser.parse_args(["refresh", *words])) for words in (old, now))
    assert one == other
    assert capsys.readouterr().err == f"traincheck: note: {old[0]} is called {now[0]} now\n"
    assert old[0] not in {name for _, action in options() for name in action.option_strings}


def test_old_names_stand_in_no_completion(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    with pytest.raises(SystemExit):
        main(["--completion", "bash"])
    script = capsys.readouterr().out
    old = {
        name
        for parser in commands().values()
        for action in parser._actions
        if isinstance(action, OldName)
        for name in action.option_strings
    }
    assert old == {"--ref", "--all"}
    assert not any(re.search(rf"['\"]{name}['\"]", script) for name in old)
    assert "--accept-all" in script
    assert "--no-color" in script
