"""`traincheck trace`: look at a trace."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_traincheck.cli import options
from pytest_traincheck.cli.status import Status
from pytest_traincheck.cli.streams import detail
from pytest_traincheck.trace.errors import TraceError


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("trace", help="print, summarise and export a trace")
    parser.add_argument("directory", type=Path, metavar="DIR", help="run directory")
    parser.add_argument("--events", type=options.count, metavar="N", help="print the first N events")
    parser.add_argument("--parquet", type=options.output_file, metavar="FILE", help="export all events")
    options.add_html(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    from pytest_traincheck.trace.show import print_events, summarise

    if not any(arguments.directory.glob("proc-*")):
        raise TraceError(
            f"there is no trace in {arguments.directory}. Give the directory that `traincheck collect --output` or "
            "`--artifacts` filled, the one with `proc-...` in it."
        )
    print(summarise(arguments.directory, detail()).rstrip("\n"))
    if arguments.events is not None:
        print()
        print(print_events(arguments.directory, arguments.events).rstrip("\n"))
    if arguments.parquet is not None:
        from pytest_traincheck.trace.export import to_parquet

        to_parquet(arguments.directory, arguments.parquet)
        print(f"\nwrote {arguments.parquet}")
    if arguments.html is not None:
        from pytest_traincheck.report.trace_html import write_html
        from pytest_traincheck.workflow.trace_page import trace_page

        write_html(arguments.html, trace_page(arguments.directory))
        print(f"\nwrote {arguments.html}")
    return Status.CLEAN
