"""`traincheck selftest`: plant known mistakes into configured pipelines and see whether their goldens notice."""

from __future__ import annotations

import argparse

from pytest_traincheck.check.result import CheckResult, RunError
from pytest_traincheck.cli import options, reports, streams
from pytest_traincheck.cli.status import Status
from pytest_traincheck.cli.status_of_results import status_of_outcomes
from pytest_traincheck.cli.streams import complain
from pytest_traincheck.input_error import InputError
from pytest_traincheck.jobs import AUTO
from pytest_traincheck.report.selftest.html import write_html
from pytest_traincheck.report.selftest.json_report import write_json
from pytest_traincheck.report.selftest.junit import write_junit
from pytest_traincheck.report.selftest.terminal import render_kinds, render_selftest
from pytest_traincheck.selftest.result import SelftestResult
from pytest_traincheck.workflow.engine import default_engine
from pytest_traincheck.workflow.history import note_selftests
from pytest_traincheck.workflow.selftest import SelftestRequest, chosen_kinds, selftest


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("selftest", help="plant known mistakes into pipelines, report the kill rate")
    parser.add_argument("names", nargs="*", metavar="NAME", help="pipelines (default: all)")
    parser.add_argument(
        "--kinds",
        action="append",
        default=[],
        metavar="GLOB",
        help="only these kinds of mistakes, or a group; repeatable",
    )
    parser.add_argument("--list", action="store_true", help="list the kinds of mistakes and exit")
    parser.add_argument(
        "--fail-under", type=options.share, metavar="RATE", help="exit status 1 below this kill rate: 0.9 or 90%%"
    )
    options.add_jobs(parser, "the configuration's, or auto")
    options.add_config(parser)
    reports.add_reports(parser)
    options.add_history(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        kinds = chosen_kinds(arguments.kinds)
        if arguments.list:
            print(render_kinds(kinds, streams.width()))
            return Status.CLEAN
        config = options.configuration(arguments)
        specs = options.chosen(config, arguments.names)
    except InputError as error:
        return _refuse(arguments, " ".join(arguments.names), error)
    jobs = arguments.jobs or config.jobs or AUTO
    request = SelftestRequest(tuple(arguments.kinds), arguments.fail_under, jobs, arguments.artifacts)
    engine = default_engine(jobs)
    found: list[SelftestResult] = []
    for spec in specs:
        try:
            result = selftest(config, spec, request, streams.progress(), engine=engine)
        except InputError as error:
            return _refuse(arguments, spec.name, error)
        streams.show(render_selftest(result, streams.width(), streams.detail()))
        found.append(result)
    _write(arguments, found)
    if arguments.history is not None:
        note_selftests(arguments.history, config, found)
    return status_of_outcomes(result.outcome for result in found)


def _write(arguments: argparse.Namespace, found: list[SelftestResult]) -> None:
    for path, write in ((arguments.json, write_json), (arguments.junit, write_junit), (arguments.html, write_html)):
        if path is not None:
            write(path, found)


def _refuse(arguments: argparse.Namespace, name: str, error: Exception) -> Status:
    """Bad input: said on stderr, and in the report files too."""
    complain(error)
    _write(arguments, [SelftestResult(CheckResult(name, errors=(RunError("", str(error)),)))])
    return Status.BAD_INPUT
