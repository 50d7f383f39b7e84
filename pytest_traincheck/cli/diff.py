"""`traincheck diff`: what changed between two goldens, as prose."""

from __future__ import annotations

import argparse

from pytest_traincheck.cli import options
from pytest_traincheck.cli.goldens import golden_named
from pytest_traincheck.cli.status import Status
from pytest_traincheck.cli.streams import detail
from pytest_traincheck.detail import Detail
from pytest_traincheck.golden.diff import diff
from pytest_traincheck.golden.diff_text import render_diff


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("diff", help="what changed between two goldens, as prose")
    parser.add_argument("old", metavar="OLD", help="golden file, or name of a configured pipeline")
    parser.add_argument("new", metavar="NEW", help="golden file, or name of a configured pipeline")
    options.add_config(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    old, new = (golden_named(text, arguments.config) for text in (arguments.old, arguments.new))
    text = render_diff(diff(old, new)).rstrip("\n")
    print(text.partition("\n")[0] if detail() is Detail.BRIEF else text)
    return Status.CLEAN
