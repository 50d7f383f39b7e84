"""Pages of the reference that are read off the code: options of the commands, options of pytest, and the API."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pytest_traincheck import api, plugin
from pytest_traincheck.cli.main import build_parser
from pytest_traincheck.cli.moments import MOMENTS


def pages() -> dict[str, str]:
    """Path of each page -> its text."""
    return {
        "reference/options.md": command_options(),
        "reference/pytest-options.md": pytest_options(),
        "reference/api.md": python_api(),
    }


def command_options() -> str:
    """Every command by its moment, with all of its arguments and options."""
    (commands,) = (item for item in build_parser()._actions if isinstance(item, argparse._SubParsersAction))
    said = {item.dest: item.help for item in commands._get_subactions()}
    lines = [
        "# Options of the commands",
        "",
        "What `traincheck COMMAND --help` prints. [Commands](../commands.md) says",
    ]
    lines += ["how each is used.", ""]
    for moment, names in MOMENTS.items():
        lines += [f"## {moment[0].upper()}{moment[1:]}", ""]
        for name in names:
            parser = commands.choices[name]
            lines += [f"### traincheck {name}", "", f"{parser.description or said.get(name) or ''}".strip(), ""]
            lines += [*_table(parser), ""]
    return "\n".join(lines)


def _table(parser: argparse.ArgumentParser) -> Iterator[str]:
    actions = [action for action in parser._actions if action.help is not argparse.SUPPRESS]
    actions = [action for action in actions if "--help" not in action.option_strings]
    if not actions:
        return
    yield "| option | meaning |"
    yield "| --- | --- |"
    formatter = parser._get_formatter()
    for action in actions:
        names = ", ".join(f"`{name}`" for name in action.option_strings) or f"`{_value(action)}`"
        value = f" `{_value(action)}`" if action.option_strings and action.nargs != 0 else ""
        yield f"| {names}{value} | {_cell(formatter._expand_help(action) if action.help else '')} |"


def _value(action: argparse.Action) -> str:
    if action.metavar is not None:
        return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    return "|".join(map(str, action.choices)) if action.choices else action.dest.upper()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


@dataclass
class Recorder:
    """Takes the place of pytest's parser, and keeps what it is told."""

    options: list[tuple[tuple[str, ...], dict[str, Any]]] = field(default_factory=list)
    settings: list[tuple[str, str]] = field(default_factory=list)

    def getgroup(self, *_words: str) -> Recorder:
        return self

    def addoption(self, *names: str, **what: Any) -> None:
        self.options.append((names, what))

    def addini(self, name: str, help: str, **_what: Any) -> None:
        self.settings.append((name, help))


def pytest_options() -> str:
    """The options and ini keys that the plugin adds."""
    told = Recorder()
    plugin.pytest_addoption(told)  # type: ignore[arg-type]
    lines = [
        "# Options of pytest",
        "",
        "What `pytest --help` prints. [Configuration](../configuration.md#pytest) says more.",
    ]
    lines += ["", "| option | meaning |", "| --- | --- |"]
    for names, what in told.options:
        if what.get("help") is argparse.SUPPRESS:
            continue
        value = what.get("metavar") or "|".join(what.get("choices", ()))
        shown = ", ".join(f"`{name}`" for name in names) + (f" `{_cell(value)}`" if value else "")
        lines.append(f"| {shown} | {_cell(str(what.get('help', '')))} |")
    lines += ["", "| ini key | meaning |", "| --- | --- |"]
    lines += [f"| `{name}` | {_cell(text)} |" for name, text in told.settings]
    return "\n".join([*lines, ""])


def python_api() -> str:
    """Everything that `pytest_traincheck.api` promises, with its docstrings."""
    lines = ["# Python API", "", "What [extensions](../extending.md) may use, and `audit` for programs."]
    lines += ["", "::: pytest_traincheck.audit", "    options:", "      heading_level: 2", ""]
    for name in api.__all__:
        lines += [f"::: pytest_traincheck.api.{name}", "    options:", "      heading_level: 2", ""]
    return "\n".join(lines)
