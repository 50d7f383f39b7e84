"""The reports that a command is asked for: their options, and how they are written."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_traincheck.check.result import CheckResult, RunError
from pytest_traincheck.cli import options
from pytest_traincheck.cli.status import Status
from pytest_traincheck.cli.status_of_results import status_of
from pytest_traincheck.cli.streams import command_out, complain
from pytest_traincheck.plugins import PluginError
from pytest_traincheck.report import reporter
from pytest_traincheck.report.errors import ReportError
from pytest_traincheck.report.github_step import Mode, publish
from pytest_traincheck.report.html import write_html
from pytest_traincheck.report.json_report import write_json
from pytest_traincheck.report.junit import write_junit


def add_reports(parser: argparse.ArgumentParser, *, of_checks: bool = False) -> None:
    options.add_artifacts(add_report_files(parser, of_checks=of_checks))


def add_report_files(parser: argparse.ArgumentParser, *, of_checks: bool = False) -> argparse._ArgumentGroup:
    """Options for reports; further formats are about checks, and not about a selftest or an upgrade."""
    group = parser.add_argument_group("reports")
    group.add_argument("--json", type=options.output_file, metavar="FILE", help="write the result as JSON")
    group.add_argument("--junit", type=options.output_file, metavar="FILE", help="write a JUnit report")
    options.add_html(group)
    if of_checks:
        group.add_argument(
            "--write",
            type=plugin_report,
            action="append",
            default=[],
            metavar="NAME=FILE",
            help="write a report in a further format (repeatable)",
        )
    return group


def add_github(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--github",
        type=Mode,
        choices=list(Mode),
        default=Mode.AUTO,
        metavar="auto|on|off",
        help="job summary and annotations of GitHub Actions (default: auto, where GitHub runs this)",
    )


def plugin_report(text: str) -> reporter.Target:
    try:
        found = reporter.target(text)
    except (ReportError, PluginError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    options.output_file(str(found.path))
    return found


def write_reports(arguments: argparse.Namespace, results: Sequence[CheckResult]) -> None:
    """Write what was asked for. Raises `ReportError` when a file cannot be written."""
    for path, write in ((arguments.json, write_json), (arguments.junit, write_junit), (arguments.html, write_html)):
        if path is not None:
            write(path, results)
    for target in getattr(arguments, "write", ()):
        reporter.write(target, results)


def finish(
    arguments: argparse.Namespace, results: Sequence[CheckResult], directories: Mapping[str, Path] | None = None
) -> Status:
    """Write the reports, tell GitHub where the pipelines ran in known `directories`, and say how it ended."""
    write_reports(arguments, results)
    if directories is not None:
        publish(arguments.github, results, directories, command_out)
    return status_of(results)


def refuse(arguments: argparse.Namespace, errors: Sequence[tuple[str, Exception]]) -> Status:
    """Bad input: say so on stderr, and in the report files too, so that a reader of those is not left with nothing."""
    for _, error in errors:
        complain(error)
    results = [CheckResult(name, errors=(RunError("", str(error)),)) for name, error in errors]
    write_reports(arguments, results)
    publish(getattr(arguments, "github", Mode.OFF), results, {}, command_out)
    return Status.BAD_INPUT
