"""JUnit XML for the standalone commands: one suite per pipeline, one test case per subject."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path

import junit_xml

from pytest_traincheck.check.result import CheckResult, Verdict
from pytest_traincheck.report import wording
from pytest_traincheck.report.audit.junit import audit_suite
from pytest_traincheck.report.files import write_report
from pytest_traincheck.report.incident import render_incident_text
from pytest_traincheck.report.junit_document import document, suite_element
from pytest_traincheck.report.shares import PROPERTY as SHARE
from pytest_traincheck.report.shares import share
from pytest_traincheck.report.subjects import SubjectReport, by_subject
from pytest_traincheck.text import one_line

RAN = "ran"
"""Name of the first test case of every suite: whether the runs came to a usable end."""

COVERAGE = "coverage"
"""Name of the second: whether golden's comparisons took place. Also the kind of a warning that they did not."""


def to_text(results: Sequence[CheckResult]) -> str:
    """The XML document."""
    audits = [audit_suite(result.audit) for result in results if result.audit is not None]
    return document([*map(_suite, results), *audits])


def write_junit(path: Path, results: Sequence[CheckResult]) -> None:
    """Write the document in one step. Raises `ReportError` when `path` cannot be written."""
    write_report(path, to_text(results), "JUnit report")


def _suite(result: CheckResult) -> ElementTree.Element:
    name = one_line(result.pipeline)
    reports = by_subject(result)
    first = [_ran_case(result, name), *([_coverage_case(result, name)] if result.coverage is not None else [])]
    cases = [*first, *(_subject_case(report, name, result) for report in reports)]
    suite = suite_element(name, cases, _suite_properties(result))
    # The library knows properties of suites only; test cases may have them, as pytest's own have.
    for element, report in zip(suite.findall("testcase")[len(first) :], reports, strict=True):
        _add_properties(element, _case_properties(report))
    return suite


def _ran_case(result: CheckResult, name: str) -> junit_xml.TestCase:
    case = junit_xml.TestCase(RAN, classname=name, elapsed_sec=result.timing.candidate_run_s)
    if result.errors:
        blocks = []
        for error in result.errors:
            lines = [one_line(error.message), one_line(error.remedy), *wording.output_lines(error)]
            blocks.append("\n".join(line for line in lines if line))
        first = result.errors[0]
        case.add_error_info(
            one_line(f"{first.side}: {first.message}" if first.side else first.message), "\n\n".join(blocks), "run"
        )
    return case


def _coverage_case(result: CheckResult, name: str) -> junit_xml.TestCase:
    """Fails where a warning fails the check, and is skipped with the reason where there is a warning or nothing to
    compare: what was not looked at must not hide in a test that passed.
    """
    case = junit_xml.TestCase(COVERAGE, classname=name)
    found = [warning for warning in result.warnings if warning.kind == COVERAGE]
    if found and any(warning.fails for warning in found):
        text = "\n".join(wording.warning(warning) for warning in found)
        case.add_failure_info(one_line(found[0].title), text, COVERAGE)
    elif found:
        case.add_skipped_info(wording.warning(found[0]))
    elif reason := wording.not_covered(result):
        case.add_skipped_info(reason)
    return case


def _subject_case(report: SubjectReport, name: str, result: CheckResult) -> junit_xml.TestCase:
    case = junit_xml.TestCase(one_line(report.subject), classname=name)
    if report.is_broken:
        blocks = [(one_line(incident.cause.title), render_incident_text(incident)) for incident in report.caused]
        for incident in report.follows:
            text = f"follows from {incident.number}. {one_line(incident.cause.title)}"
            blocks.append((text, text))
        if any(incident.number == 1 for incident in report.caused):
            commands = "\n".join(wording.next_lines(result))
            blocks.append((commands, commands))
        if not blocks:
            broken = [item for item in report.verdicts if item.verdict is Verdict.VIOLATED]
            texts = [one_line(f"broken: {item.invariant.sentence} {item.reason}") for item in broken]
            blocks = [(text, text) for text in texts]
        kind = report.caused[0].kind.value if report.caused else "consequence" if report.follows else "violation"
        case.add_failure_info(blocks[0][0], "\n\n".join(text for _, text in blocks if text), kind)
    elif report.skip_reason:
        case.add_skipped_info(one_line(report.skip_reason))
    return case


def _suite_properties(result: CheckResult) -> Mapping[str, str]:
    facts = {
        "verdict": result.outcome.value,
        "invariants": wording.counts(result),
        "coverage": wording.coverage(result),
        "golden commit": result.golden.commit,
        "golden runs": str(result.golden.runs),
        "candidate commit": result.candidate.commit,
        "candidate command": result.candidate.command,
        **{f"golden {key}": value for key, value in sorted(result.golden.environment.items())},
        **{f"candidate {key}": value for key, value in sorted(result.candidate.environment.items())},
        **{f"seconds: {label}": f"{value:.4f}" for label, value in wording.timing(result)},
    }
    notes = {f"note {number}": note for number, note in enumerate(result.notes, start=1)}
    warnings = {f"warning {number}": wording.warning(item) for number, item in enumerate(result.warnings, start=1)}
    return {one_line(key): one_line(value) for key, value in (facts | warnings | notes).items() if value}


def _case_properties(report: SubjectReport) -> list[tuple[str, str]]:
    properties = [(SHARE, share(report.verdicts))]
    for incident in report.caused:
        root = incident.cause
        properties += [
            ("traincheck_invariant", root.invariant.id),
            ("traincheck_sentence", one_line(root.invariant.sentence)),
            ("traincheck_step", str(root.step)),
            ("traincheck_stage", one_line(root.stage)),
            ("traincheck_ranks", wording.number_ranges(root.ranks)),
            ("traincheck_source", one_line(root.source)),
            ("traincheck_diff", wording.diff_place(incident.diff) if incident.diff else ""),
        ]
    properties += [("traincheck_follows_from", one_line(incident.id)) for incident in report.follows]
    return [(key, value) for key, value in properties if value]


def _add_properties(element: ElementTree.Element, properties: Sequence[tuple[str, str]]) -> None:
    container = ElementTree.Element("properties")
    for key, value in properties:
        ElementTree.SubElement(container, "property", {"name": key, "value": value})
    element.insert(0, container)
