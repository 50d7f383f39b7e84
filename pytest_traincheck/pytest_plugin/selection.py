"""Incidents whose items were not selected: `-k`, `--lf`, `--deselect` and node ids leave items out, not what happened.

A pipeline runs as a whole when its first item needs it. Each item that fails reports certain incidents; what none of
the items that ran reports is reported by the session, as a failure of the golden file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_traincheck.check.result import CheckResult, Outcome
from pytest_traincheck.pytest_plugin import wording
from pytest_traincheck.pytest_plugin.failure import TraincheckFailure, representation
from pytest_traincheck.text import one_line, plural

REPORTED = "traincheck_carries"
"""Property of a report: an incident that its outcome tells of. It travels from an xdist worker by itself."""

RAN = "ran"
"""Name of the item that tells whether a pipeline ran."""

COVERAGE = "coverage"
"""Name of the item that tells whether golden's comparisons took place, and what stands for an incident where they did
not and that is a failure.
"""

AUDIT = "audit"
"""Name of the item that tells what an audit found, and what stands for that where it fails."""

ERROR = "error"
"""Stands for an incident where the runs gave no result."""


def reported_name(pipeline: str, incident: str) -> str:
    """The value of the property: a pipeline, and an incident's id or `ERROR`."""
    return f"{pipeline} {incident}"


@dataclass
class Reported:
    """What the items that ran have reported: incidents by name, as failures or as failures that were expected."""

    failed: set[str] = field(default_factory=set)
    expected: set[str] = field(default_factory=set)

    def note(self, report: pytest.TestReport) -> None:
        """Take in the report of one item."""
        found = {str(value) for key, value in report.user_properties if key == REPORTED}
        if report.failed:
            self.failed |= found
        elif hasattr(report, "wasxfail"):
            self.expected |= found

    def is_expected(self, result: CheckResult) -> bool:
        """Whether a result failed and every item that tells of it is marked to fail."""
        names = _names(result)
        return bool(names) and names <= self.expected and not names & self.failed

    def unreported(self, result: CheckResult) -> tuple[str, ...]:
        """Ids of the result's incidents, or `ERROR`, that no item reported."""
        reported = self.failed | self.expected
        return tuple(name.rpartition(" ")[2] for name in sorted(_names(result)) if name not in reported)


def _names(result: CheckResult) -> set[str]:
    if result.errors:
        return {reported_name(result.pipeline, ERROR)}
    found = [incident.id for incident in result.incidents]
    found += [COVERAGE] if any(item.fails for item in result.warnings) else []
    found += [AUDIT] if result.audit is not None and result.audit.outcome is not Outcome.PASS else []
    return {reported_name(result.pipeline, name) for name in found}


def failure_of(result: CheckResult, unreported: Sequence[str], path: Path, node: str) -> list[pytest.TestReport]:
    """The failure of a golden file whose items that ran do not tell all that its run came to, as reports of pytest.

    `node` is the file's own node id: a session that follows with `--lf` collects the file again, and then runs all of
    its items.
    """
    if ERROR in unreported:
        sentence = f"the pipeline did not run, and the item that says so was not selected: {RAN}"
        text = f"{sentence[0].upper()}{sentence[1:]}.\n\n{wording.errors_text(result)}"
    elif set(unreported) == {AUDIT}:
        sentence = f"the audit found errors, and the item that says so was not selected: {AUDIT}"
        text = f"{sentence[0].upper()}{sentence[1:]}.\n\n{wording.audit_text(result)}"
    elif set(unreported) <= {AUDIT, COVERAGE}:
        sentence = f"too few comparisons took place, and the item that says so was not selected: {COVERAGE}"
        failing = [item for item in result.warnings if item.fails]
        text = f"{sentence[0].upper()}{sentence[1:]}.\n\n{wording.strict_text(failing, result)}"
    else:
        incidents = [incident for incident in result.incidents if incident.id in unreported]
        subjects = list(dict.fromkeys(one_line(incident.cause.invariant.subject) for incident in incidents))
        items = "an item that was" if len(subjects) == 1 else "items that were"
        count, named = plural(len(incidents), "incident"), ", ".join(subjects)
        # The list of failures cuts lines off at the width of the terminal.
        sentence = f"{count} not selected: {named}"
        text = f"{count} in {items} not selected: {named}.\n\n{wording.incidents_text(incidents, result)}"
    try:
        raise TraincheckFailure(text, sentence)
    except TraincheckFailure as failure:
        shown = representation(failure, path, 0)
    place = (node, 0, f"{one_line(result.pipeline)}: not selected")
    about = [("traincheck_pipeline", result.pipeline), ("traincheck_sentence", sentence)]
    return [
        pytest.TestReport(node, place, {}, "failed", shown, "call", user_properties=about),
        # JUnit takes an item's properties from the last of its reports.
        pytest.TestReport(node, place, {}, "passed", None, "teardown", user_properties=about),
    ]
