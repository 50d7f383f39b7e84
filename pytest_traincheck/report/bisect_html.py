"""One HTML page for a bisect: the commits that were tried, and the check of the first bad one."""

from __future__ import annotations

from pathlib import Path

from pytest_traincheck.report.bisect import BisectReport
from pytest_traincheck.report.check_pictures import portrayed
from pytest_traincheck.report.files import write_report
from pytest_traincheck.report.html import template_environment
from pytest_traincheck.report.pictures.commits import commits


def to_text(report: BisectReport) -> str:
    """The page."""
    result = report.first_bad.result if report.first_bad is not None else None
    template = template_environment().get_template("bisect.html.j2")
    return template.render(
        report=report,
        picture=commits(report),
        result=result,
        drawn=portrayed(result) if result is not None else [],
    )


def write_html(path: Path, report: BisectReport) -> None:
    """Write the page in one step. Raises `ReportError` when `path` cannot be written."""
    write_report(path, to_text(report), "HTML report")
