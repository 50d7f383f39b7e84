"""One HTML page for an audit, in the style of the other reports: no external resources, everything escaped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_traincheck.check.audited import Audit, LawVerdict
from pytest_traincheck.check.result import Verdict
from pytest_traincheck.report.audit import wording
from pytest_traincheck.report.files import write_report
from pytest_traincheck.report.html import template_environment, worst_outcome

_SECTIONS = (Verdict.VIOLATED, Verdict.HELD, Verdict.NOT_TRIGGERED, Verdict.NOT_OBSERVABLE)


def to_text(audits: Sequence[Audit]) -> str:
    """The page for one or several audits."""
    environment = template_environment()
    environment.globals.update(
        verdict=wording.verdict,
        counts=wording.counts,
        looked_at=wording.looked_at,
        details=wording.details,
        others=wording.others,
        silencing=wording.silencing,
        allowed=wording.allowed,
        sections=_sections,
    )
    template = environment.get_template("audit.html.j2")
    return template.render(audits=audits, worst=worst_outcome([audit.outcome for audit in audits]))


def write_html(path: Path, audits: Sequence[Audit]) -> None:
    """Write the page in one step. Raises `ReportError` when `path` cannot be written."""
    write_report(path, to_text(audits), "HTML report")


def _sections(audit: Audit) -> list[tuple[Verdict, list[LawVerdict]]]:
    """The rules by what became of them."""
    groups = ((verdict, [item for item in audit.verdicts if item.verdict is verdict]) for verdict in _SECTIONS)
    return [(verdict, items) for verdict, items in groups if items]
