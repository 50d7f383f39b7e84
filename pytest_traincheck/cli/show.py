"""`traincheck show`: the rules of a golden, as prose."""

from __future__ import annotations

import argparse

from pytest_traincheck.cli import options
from pytest_traincheck.cli.goldens import golden_named
from pytest_traincheck.cli.status import Status
from pytest_traincheck.cli.streams import detail
from pytest_traincheck.golden.show import render


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("show", help="the rules of a golden, as prose")
    parser.add_argument("golden", metavar="GOLDEN", help="golden file, or name of a configured pipeline")
    parser.add_argument("--subject", metavar="S", help="only rules about this API, parameter or module (or a glob)")
    options.add_config(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    golden = golden_named(arguments.golden, arguments.config)
    print(render(golden, arguments.subject, detail()).rstrip("\n"))
    return Status.CLEAN
