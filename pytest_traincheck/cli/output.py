"""Results on the terminal."""

from __future__ import annotations

from pytest_traincheck.check.audited import Audit
from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.cli import streams
from pytest_traincheck.report.audit.terminal import render_audit
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
