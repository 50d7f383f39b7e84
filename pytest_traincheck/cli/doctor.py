"""`traincheck doctor`: what a check needs, piece by piece, and what to do about what does not work."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_traincheck.cli.status import Status
from pytest_traincheck.cli.streams import styled_output
from pytest_traincheck.workflow.doctor import Finding, Level, examine

_STYLES = {Level.FINE: "green", Level.NOTE: "yellow", Level.WRONG: "bold red"}


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("doctor", help="say why something does not work: interpreter, torch, git, data, disk")
    parser.add_argument(
        "--config", metavar="FILE", type=Path, help="configuration file (default: the nearest pyproject.toml)"
    )
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    width = shutil.get_terminal_size((100, 24)).columns
    terminal = sys.stdout.isatty()
    console = Console(
        file=styled_output() if terminal else sys.stdout,
        width=width,
        highlight=False,
        no_color=None if terminal else True,
    )
    wrong = 0
    for finding in examine(Path.cwd(), arguments.config):
        console.print(render(finding))
        wrong += finding.level is Level.WRONG
    return Status.BAD_INPUT if wrong else Status.CLEAN


def render(finding: Finding) -> Table:
    """One piece: a word for how it is, its name, and what there is to say, with what to do on a line of its own."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=5)
    table.add_column(width=15)
    table.add_column(overflow="fold")
    level = Text(finding.level.value, style=_STYLES[finding.level])
    table.add_row(level, Text(finding.subject, overflow="fold"), Text(finding.said))
    if finding.remedy:
        table.add_row("", "", Text(finding.remedy))
    return table
