"""JUnit XML of a selftest: one suite per pipeline, one test case per kind of mistake."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

import junit_xml

from pytest_traincheck.check.result import Outcome
from pytest_traincheck.report.files import write_report
from pytest_traincheck.report.incident import render_incident_text
from pytest_traincheck.report.junit_document import document, suite_element
from pytest_traincheck.report.selftest import wording
from pytest_traincheck.selftest.result import Fate, Mutant, SelftestResult
from pytest_traincheck.text import one_line

RATE = "kill rate"
"""Name of the first test case of every suite; the only one that can fail."""


def to_text(results: Sequence[SelftestResult]) -> str:
    """The XML document."""
    return document([_suite(result) for result in results], sum(result.seconds for result in results))


def write_junit(path: Path, results: Sequence[SelftestResult]) -> None:
    """Write the document in one step. Raises `ReportError` when `path` cannot be written."""
    write_report(path, to_text(results), "JUnit report")


def _suite(result: SelftestResult) -> ElementTree.Element:
    name = one_line(result.pipeline)
    cases = [_rate(result, name), *(_case(mutant, name) for mutant in result.mutants)]
    properties = {"verdict": result.outcome.value, "kill rate": f"{result.kill_rate:.4f}"}
    return suite_element(f"{name} selftest", cases, properties)


def _rate(result: SelftestResult, name: str) -> junit_xml.TestCase:
    case = junit_xml.TestCase(RATE, classname=name, elapsed_sec=result.seconds)
    said = one_line(", ".join(part for part in (wording.summary(result), wording.floor(result)) if part))
    survivors = [f"{mutant.kind.name}: {mutant.kind.mistake}" for mutant in result.of(Fate.SURVIVED)]
    if result.outcome is Outcome.FAIL:
        incidents = [render_incident_text(incident) for incident in result.unchanged.incidents]
        case.add_failure_info(said, "\n".join([wording.remedy(result), *survivors, *incidents]).strip(), "selftest")
    elif result.outcome is Outcome.ERROR:
        messages = [one_line(error.message) for error in result.unchanged.errors]
        case.add_error_info(said, "\n".join([wording.remedy(result), *messages]).strip(), "run")
    else:
        case.stdout = "\n".join([said, *survivors])
    return case


def _case(mutant: Mutant, name: str) -> junit_xml.TestCase:
    """A survivor is skipped and not failed: whether there may be one is for the kill rate to say."""
    case = junit_xml.TestCase(mutant.kind.name, classname=name, elapsed_sec=mutant.seconds)
    if mutant.fate in (Fate.KILLED, Fate.CRASHED):
        case.stdout = f"{mutant.kind.mistake}\n{mutant.fate.value}: {wording.found(mutant)}"
    else:
        reason = one_line(mutant.detail) or mutant.kind.mistake
        case.add_skipped_info(f"{mutant.fate.value}: {reason}")
    return case
