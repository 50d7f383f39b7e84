"""`traincheck watch`: checks the trace of a run that is still going on, or has ended."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.cli import options, output, streams
from pytest_traincheck.cli.live import Lines
from pytest_traincheck.cli.status import Status
from pytest_traincheck.cli.status_of_results import status_of
from pytest_traincheck.workflow.attend import IDLE_S, attend, command_of
from pytest_traincheck.workflow.meant import against, meant
from pytest_traincheck.workflow.runs import RunFailed


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("watch", help="check a run that is still going on")
    parser.add_argument("trace", type=Path, metavar="TRACE_DIR", help="directory that the run writes its trace into")
    parser.add_argument(
        "golden", type=options.ref, metavar="GOLDEN", help="golden file, name of a pipeline, or git ref"
    )
    parser.add_argument(
        "--idle",
        type=options.seconds,
        default=IDLE_S,
        metavar="S",
        help=f"seconds without a new event after which the run is taken for dead (default: {IDLE_S:g})",
    )
    parser.add_argument(
        "--json", type=options.output_file, metavar="FILE", help="a line for each incident, and one with the result"
    )
    options.add_export(parser)
    options.add_config(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    run_dir = arguments.trace.absolute()
    words = command_of(run_dir)
    try:
        held = against(
            words, meant(None, arguments.golden, Path.cwd(), arguments.config), arguments.golden, streams.progress()
        )
    except RunFailed as failure:
        output.show(CheckResult(arguments.golden, errors=(failure.error,), notes=failure.notes))
        return Status.RUN_FAILED
    lines = Lines(held.golden.pipeline, arguments.json, arguments.export)
    streams.remark(f"watching {run_dir} against {held.where}")
    result = attend(run_dir, held, lines.incident, idle=arguments.idle, looked=lines.steps)
    lines.end(result)
    output.show(result)
    return status_of([result])
