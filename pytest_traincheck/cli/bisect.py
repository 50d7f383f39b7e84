"""`traincheck bisect`: find the commit that brought an incident."""

from __future__ import annotations

import argparse

from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.cli import options, output, streams
from pytest_traincheck.cli.status import Status
from pytest_traincheck.detail import Detail
from pytest_traincheck.report.bisect import Tested, render_end, render_tested, write_bisect_json
from pytest_traincheck.report.bisect_html import write_html
from pytest_traincheck.workflow.bisect import BisectRequest, EndFailed, bisect
from pytest_traincheck.workflow.engine import default_engine
from pytest_traincheck.workflow.runs import RunFailed


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("bisect", help="find the commit that introduced an incident")
    parser.add_argument("name", metavar="NAME", help="configured pipeline")
    parser.add_argument(
        "--good", required=True, metavar="REF", help="commit that trains correctly; its golden is learned"
    )
    parser.add_argument("--bad", required=True, metavar="REF", help="commit that has the incident")
    parser.add_argument("--json", type=options.output_file, metavar="FILE", help="write what was found as JSON")
    options.add_html(parser)
    options.add_config(parser)
    options.add_cache(parser)
    options.add_jobs(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    width, progress = streams.width(), streams.progress()

    def tell(item: Tested | str) -> None:
        if streams.detail() is Detail.BRIEF:
            return
        # Each line as soon as it is known: minutes may go by between two.
        with progress.aside():
            print(render_tested(item, width) if isinstance(item, Tested) else item, flush=True)

    config = options.configuration(arguments)
    (spec,) = options.chosen(config, [arguments.name])
    request = BisectRequest(config, spec, arguments.good, arguments.bad, not arguments.no_cache)
    try:
        report = bisect(request, progress, tell, default_engine(arguments.jobs or config.jobs or 1))
    except (RunFailed, EndFailed) as failure:
        failed = failure.result if isinstance(failure, EndFailed) else _failed(arguments.name, failure)
        output.show(failed)
        return Status.RUN_FAILED
    streams.tell("")
    print(render_end(report, width, streams.detail()))
    if arguments.json is not None:
        write_bisect_json(arguments.json, report)
    if arguments.html is not None:
        write_html(arguments.html, report)
    return Status.INCIDENTS if report.first_bad is not None else Status.RUN_FAILED


def _failed(name: str, failure: RunFailed) -> CheckResult:
    return CheckResult(name, errors=(failure.error,), notes=failure.notes)
