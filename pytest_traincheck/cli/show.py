"""`traincheck show`: the rules of a golden, as prose."""

from __future__ import annotations

import argparse

from pytest_traincheck.cli.goldens import golden_named
from pytest_traincheck.cli.status import Status
from pytest_traincheck.golden.show import render


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("show", help="the rules of a golden, as prose")
    parser.add_argument("golden", metavar="GOLDEN", help="golden file, or name of a configured pipeline")
    parser.add_argument("--subject", metavar="S", help="only rules about this API, parameter or module (or a glob)")
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    print(render(golden_named(arguments.golden), arguments.subject).rstrip("\n"))
    return Status.CLEAN
