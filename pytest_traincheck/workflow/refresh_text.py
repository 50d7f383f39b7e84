"""What a refresh did, in words."""

from __future__ import annotations

from pytest_traincheck.golden.wording import plural
from pytest_traincheck.workflow.configured import RefreshReport


def refresh_text(report: RefreshReport) -> str:
    """What a refresh did to one golden, as plain text; the diff is ready to be pasted into a pull request."""
    if report.errors:
        head = f"{report.pipeline}: not refreshed, the golden is as it was"
    elif not report.changed:
        head = f"{report.pipeline}: no change, {report.path} is as it was"
    else:
        count = len(report.new.invariants) if report.new is not None else 0
        head = f"{report.pipeline}: learned {plural(count, 'rule')}, wrote {report.path}"
    blocks = [head, report.diff, *(f"note: {note}" for note in report.notes)]
    return "\n\n".join(block for block in blocks if block)
