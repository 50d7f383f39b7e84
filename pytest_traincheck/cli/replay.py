"""`traincheck replay`: check the run in a bundle again, without training."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_traincheck.cli import output, reports
from pytest_traincheck.input_error import InputError
from pytest_traincheck.workflow.replay import replay_bundle


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("replay", help="check the run in a bundle again, without training")
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="directory that --artifacts left, or a zip of it")
    reports.add_report_files(parser, of_checks=True)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        result = replay_bundle(arguments.bundle)
    except InputError as error:
        return reports.refuse(arguments, [(arguments.bundle.name, error)])
    output.show(result)
    output.show_next(result)
    return reports.finish(arguments, [result])
