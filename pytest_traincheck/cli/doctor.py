"""`traincheck doctor`: what a check needs, piece by piece, and what to do about what does not work."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.table import Table
from rich.text import Text

from pytest_traincheck.cli import options
from pytest_traincheck.cli.status import Status
from pytest_traincheck.cli.streams import detail, show
from pytest_traincheck.detail import Detail
from pytest_traincheck.workflow.doctor import Finding, Level, examine

_STYLES = {Level.FINE: "green", Level.NOTE: "yellow", Level.WRONG: "bold red"}


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("doctor", help="say why something does not work: interpreter, torch, git, data, disk")
    options.add_config(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    wrong = 0
    for finding in examine(Path.cwd(), arguments.config, everything=detail() is Detail.FULL):
        if finding.level is not Level.FINE or detail() is not Detail.BRIEF:
            show(render(finding))
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
