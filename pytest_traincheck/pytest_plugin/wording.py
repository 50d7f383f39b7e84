"""Texts of failing items. Pure functions of check results."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_traincheck.check.result import CheckResult, Incident, Violation, Warned
from pytest_traincheck.printable import printable
from pytest_traincheck.report.audit.terminal import render_finding_text
from pytest_traincheck.report.incident import render_incident_text
from pytest_traincheck.report.wording import next_lines, warning

WIDTH = 100


def incidents_text(incidents: Sequence[Incident], result: CheckResult) -> str:
    """Incidents of a result; with the first of all go the commands that reproduce it and accept it."""
    parts = [render_incident_text(incident, width=WIDTH) for incident in incidents]
    if any(incident.number == 1 for incident in incidents):
        parts.append("\n".join(next_lines(result)))
    return printable("\n\n".join(part for part in parts if part))


def sentence(incident: Incident) -> str:
    """One line for a list of failures."""
    return printable(f"step {incident.cause.step}: {incident.cause.title}")


def consequence(incident: Incident, broken: Sequence[Violation]) -> str:
    """One line that leads to the cause, then what was broken here."""
    head = f"follows from incident {incident.number}: {incident.cause.title}"
    return printable("\n".join([head, *(f"  - step {item.step}: {item.title}" for item in broken)]))


def strict_text(warnings: Sequence[Warned], result: CheckResult) -> str:
    """What fails under `strict`, and the commands that reproduce it and learn anew, where no incident has them."""
    commands = [] if result.incidents else next_lines(result)
    return "\n\n".join([*(warning(item) for item in warnings), *(["\n".join(commands)] if commands else [])])


def audit_text(result: CheckResult) -> str:
    """What an audit found, errors and warnings."""
    audit = result.audit
    if audit is None:
        return ""
    errors = [f"{error.message}\n{error.remedy}".strip() for error in audit.errors]
    return printable("\n\n".join([*errors, *(render_finding_text(finding, width=WIDTH) for finding in audit.shown)]))


def errors_text(result: CheckResult) -> str:
    """Why a pipeline gave no result, with the end of its own output."""
    blocks = []
    for error in result.errors:
        side = f"{error.side}: " if error.side else ""
        lines = [f"{side}{error.message}"]
        if error.remedy:
            lines.append(error.remedy)
        if error.output.strip():
            lines += ["last lines of its output:", *(f"  | {line}" for line in error.output.rstrip().splitlines())]
        blocks.append("\n".join(lines))
    return printable("\n\n".join(blocks))


def in_process_text(result: CheckResult) -> str:
    """The incidents of training inside a test, and the commands that reproduce and accept them."""
    parts = [render_incident_text(incident, width=WIDTH) for incident in result.incidents]
    parts += [f"warning: {warning(item)}" for item in result.warnings if item.fails or result.incidents]
    rest = [*(f"note: {note}" for note in result.notes), *next_lines(result)]
    head = "broke rules of its golden" if result.incidents else "cannot be compared with its golden"
    return printable("\n\n".join([f"{result.pipeline}: the training {head}", *parts, "\n".join(rest)]))
