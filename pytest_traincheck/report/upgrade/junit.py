"""JUnit XML for an upgrade: one suite per combination of code and libraries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.report import junit
from pytest_traincheck.report.upgrade import wording
from pytest_traincheck.report.upgrade.result import UpgradeResult


def write_junit(path: Path, results: Sequence[UpgradeResult]) -> None:
    """Write the document in one step. Raises `ReportError` when `path` cannot be written."""
    junit.write_junit(path, [suite for result in results for suite in suites(result)])


def suites(result: UpgradeResult) -> list[CheckResult]:
    """Every check under the name of the pipeline and its cell; the sentence is a note of each."""
    return [
        replace(check, notes=(*check.notes, *result.notes, result.attribution.sentence))
        for check in named_checks(result)
    ]


def named_checks(result: UpgradeResult) -> list[CheckResult]:
    """Every check under a name of its own, or the learning that failed."""
    if not result.cells:
        return [result.reference]
    return [replace(cell.result, pipeline=f"{result.pipeline} ({wording.cell_name(cell)})") for cell in result.cells]
