"""JUnit XML of an audit: one suite, one test case per rule."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path

import junit_xml

from pytest_traincheck.check.audited import Audit, AuditFinding, LawVerdict
from pytest_traincheck.check.result import Verdict
from pytest_traincheck.report.audit import wording
from pytest_traincheck.report.audit.terminal import render_finding_text
from pytest_traincheck.report.files import write_report
from pytest_traincheck.report.junit_document import document, suite_element
from pytest_traincheck.report.wording import output_lines
from pytest_traincheck.text import one_line

RAN = "ran"
"""Name of the first test case: whether the run came to a usable end."""


def to_text(audits: Sequence[Audit]) -> str:
    """The XML document."""
    return document([audit_suite(audit) for audit in audits])


def write_junit(path: Path, audits: Sequence[Audit]) -> None:
    """Write the document in one step. Raises `ReportError` when `path` cannot be written."""
    write_report(path, to_text(audits), "JUnit report")


def audit_suite(audit: Audit) -> ElementTree.Element:
    """The suite of one audit."""
    name = one_line(audit.name)
    by_rule: dict[str, list[LawVerdict]] = {}
    for item in audit.verdicts:
        by_rule.setdefault(item.rule.id, []).append(item)
    found = _findings(audit)
    allowed = {name: item.reason for item in audit.silenced for name in item.finding.names}
    cases = [
        _ran(audit, name),
        *(_case(rule, items, found.get(rule), allowed.get(rule, ""), audit, name) for rule, items in by_rule.items()),
    ]
    properties = {"verdict": audit.outcome.value, "rules": wording.counts(audit), "looked at": wording.looked_at(audit)}
    return suite_element(f"{name} audit", cases, {key: one_line(value) for key, value in properties.items()})


def _findings(audit: Audit) -> Mapping[str, AuditFinding]:
    """The finding that tells of each broken rule, as its cause or along with it."""
    found: dict[str, AuditFinding] = {}
    for finding in audit.findings:
        for name in finding.names:
            found.setdefault(name, finding)
    return found


def _ran(audit: Audit, name: str) -> junit_xml.TestCase:
    case = junit_xml.TestCase(RAN, classname=name, elapsed_sec=audit.run_s)
    if audit.errors:
        error = audit.errors[0]
        lines = [one_line(error.message), one_line(error.remedy), *output_lines(error)]
        case.add_error_info(one_line(error.message), "\n".join(line for line in lines if line), "run")
    return case


def _case(
    rule: str, items: Sequence[LawVerdict], finding: AuditFinding | None, allowed: str, audit: Audit, name: str
) -> junit_xml.TestCase:
    """A warning is skipped and not failed, unless the audit is strict: what it says must not hide in a passed test."""
    case = junit_xml.TestCase(rule, classname=name)
    if finding is not None:
        title = one_line(finding.incident.cause.title)
        if finding.level == "error" or audit.strict:
            case.add_failure_info(title, render_finding_text(finding), finding.level)
        else:
            case.add_skipped_info(f"warning: {title}")
    elif allowed:
        case.add_skipped_info(one_line(f"allowed: {allowed}"))
    elif not any(item.verdict is Verdict.HELD for item in items):
        case.add_skipped_info(one_line(f"{items[0].verdict.value}: {items[0].reason}"))
    return case
