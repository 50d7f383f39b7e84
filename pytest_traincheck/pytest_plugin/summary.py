"""The section `traincheck` of pytest's terminal summary."""

from __future__ import annotations

import io
from collections.abc import Container, Iterable

import pytest
from rich.console import Console
from rich.text import Text

from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.detail import Detail
from pytest_traincheck.printable import printable, without_commands
from pytest_traincheck.report.audit.terminal import render_audit
from pytest_traincheck.report.terminal import render_result
from pytest_traincheck.report.wording import next_lines


def show(
    reporter: pytest.TerminalReporter,
    results: Iterable[CheckResult],
    refreshed: Iterable[str],
    notes: Iterable[str],
    commands: Iterable[str] = (),
    expected: Container[str] = (),
) -> None:
    """Write the section: every result with its incidents in order, every refresh with its diff.

    `commands` are workflow commands of ours; nothing else that is written here is one. `expected` are pipelines that
    failed in items marked to fail, and in no other.
    """
    writer = reporter.config.get_terminal_writer()
    reporter.section("traincheck")
    detail = detail_of(reporter.config)
    for result in results:
        rendered = render_result(result, width=writer.fullwidth, expected=result.pipeline in expected, detail=detail)
        reporter.write_line(_styled(rendered, writer.fullwidth, writer.hasmarkup))
        if result.audit is not None:
            found = render_audit(result.audit, width=writer.fullwidth, detail=detail)
            reporter.write_line("")
            reporter.write_line(_styled(found, writer.fullwidth, writer.hasmarkup))
        if lines := next_lines(result, writer.fullwidth):
            reporter.write_line(printable("\n".join(["", *lines])))
        reporter.write_line("")
    for text in refreshed:
        reporter.write_line(printable(text))
        reporter.write_line("")
    for note in notes:
        reporter.write_line(printable(note))
    for command in commands:
        reporter.write_line(command)


def detail_of(config: pytest.Config) -> Detail:
    """What `-v` and `-qq` ask for. `-q` leaves out pytest's own words, and not why something failed."""
    verbosity = config.get_verbosity()
    return Detail.FULL if verbosity > 0 else Detail.BRIEF if verbosity < -1 else Detail.USUAL


def _styled(text: Text, width: int, markup: bool) -> str:
    if not markup:
        return printable(text.plain)
    stream = io.StringIO()
    Console(file=stream, width=width, force_terminal=True, color_system="standard").print(text, end="")
    return without_commands(stream.getvalue())
