"""`traincheck diff`: what changed between two goldens, as prose."""

from __future__ import annotations

import argparse

from pytest_traincheck.cli.goldens import golden_named
from pytest_traincheck.cli.status import Status
from pytest_traincheck.golden.diff import diff
from pytest_traincheck.golden.diff_text import render_diff


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("diff", help="what changed between two goldens, as prose")
    parser.add_argument("old", metavar="OLD", help="golden file, or name of a configured pipeline")
    parser.add_argument("new", metavar="NEW", help="golden file, or name of a configured pipeline")
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    print(render_diff(diff(golden_named(arguments.old), golden_named(arguments.new))).rstrip("\n"))
    return Status.CLEAN
