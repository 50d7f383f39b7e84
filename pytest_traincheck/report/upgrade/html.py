"""One HTML page for an upgrade: the four verdicts and what differs, then the page of every check."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_traincheck.check.attribution import Libraries
from pytest_traincheck.report.files import write_report
from pytest_traincheck.report.html import check_context, template_environment, worst_outcome
from pytest_traincheck.report.upgrade import wording
from pytest_traincheck.report.upgrade.junit import named_checks
from pytest_traincheck.report.upgrade.result import UpgradeResult


def to_text(results: Sequence[UpgradeResult]) -> str:
    """The page for one or several pipelines."""
    template = template_environment().get_template("upgrade.html.j2")
    checks = [check for result in results for check in named_checks(result)]
    return template.render(
        **{**check_context(checks, base=2), "worst": worst_outcome([result.last.outcome for result in results])},
        upgrades=results,
        cell_text=wording.cell_text,
        version_text=wording.version_text,
        share_text=wording.share_text,
        call_text=wording.call_text,
        broken_by=wording.BROKEN_BY,
        codes_of=wording.codes_of,
        libraries=list(Libraries),
    )


def write_html(path: Path, results: Sequence[UpgradeResult]) -> None:
    """Write the page in one step. Raises `ReportError` when `path` cannot be written."""
    write_report(path, to_text(results), "HTML report")
