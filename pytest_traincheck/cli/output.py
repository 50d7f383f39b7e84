"""Results on the terminal and in the report files that were asked for."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_traincheck.check.audited import Audit
from pytest_traincheck.check.result import CheckResult, RunError
from pytest_traincheck.cli import streams
from pytest_traincheck.cli.status import Status, status_of
from pytest_traincheck.cli.streams import command_out, complain
from pytest_traincheck.report import reporter
from pytest_traincheck.report.audit.terminal import render_audit
from pytest_traincheck.report.github_step import Mode, publish
from pytest_traincheck.report.html import write_html
from pytest_traincheck.report.json_report import write_json
from pytest_traincheck.report.junit import write_junit
from pytest_traincheck.report.terminal import render_result
from pytest_traincheck.report.wording import next_lines


def show(result: CheckResult) -> None:
    """Print one result; in colours when stdout is a terminal."""
    streams.show(render_result(result, width=streams.width(), detail=streams.detail()))
    if result.audit is not None:
        print()
        show_audit(result.audit)


def show_audit(found: Audit) -> None:
    """Print an audit; in colours when stdout is a terminal."""
    streams.show(render_audit(found, width=streams.width(), detail=streams.detail()))


def show_next(result: CheckResult) -> None:
    """After a failed check: the commands that reproduce it and that accept what was found."""
    lines = next_lines(result, streams.columns())
    if lines:
        print("\n".join(["", *lines]))


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
