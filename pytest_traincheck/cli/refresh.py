"""`traincheck refresh`: learn the goldens of configured pipelines again."""

from __future__ import annotations

import argparse

from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.cli import options, output
from pytest_traincheck.cli.status import Status
from pytest_traincheck.launch.progress import progress_for
from pytest_traincheck.workflow import refresh
from pytest_traincheck.workflow.refresh_text import refresh_text


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("refresh", help="learn the goldens of configured pipelines again, and show the diff")
    parser.add_argument("names", nargs="*", metavar="NAME", help="pipelines (default: all)")
    parser.add_argument("--ref", metavar="REF", help="learn from this git ref (default: the working tree)")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; stored in the golden")
    options.add_config(parser)
    options.add_artifacts(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    config = options.configuration(arguments)
    status = Status.CLEAN
    for spec in options.chosen(config, arguments.names):
        report = refresh(
            config, spec, arguments.ref, arguments.reason, progress=progress_for(), artifacts=arguments.artifacts
        )
        if report.errors:
            output.show(CheckResult(spec.name, errors=report.errors))
            status = Status.RUN_FAILED
        print(refresh_text(report))
    return status
