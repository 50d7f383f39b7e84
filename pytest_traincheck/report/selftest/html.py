"""One HTML page for a selftest, in the style of the other report: no external resources, everything escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_traincheck.report.files import write_report
from pytest_traincheck.report.html import template_environment, worst_outcome
from pytest_traincheck.report.pictures.mutants import mutants
from pytest_traincheck.report.selftest import wording
from pytest_traincheck.selftest.result import Fate, Mutant, SelftestResult

_CLASSES: Mapping[Fate, str] = {
    Fate.SURVIVED: "violated",
    Fate.KILLED: "held",
    Fate.CRASHED: "accepted",
    Fate.EQUIVALENT: "not_observable",
    Fate.NOT_APPLICABLE: "not_triggered",
}
"""The colours that the style sheet has for verdicts."""


@dataclass(frozen=True)
class _Section:
    """The mutants that share a fate."""

    fate: Fate
    heading: str
    style: str
    mutants: tuple[Mutant, ...]


def to_text(results: Sequence[SelftestResult]) -> str:
    """The page for one or several results."""
    environment = template_environment()
    environment.globals.update(
        sections=_sections,
        summary=wording.summary,
        floor=wording.floor,
        remedy=wording.remedy,
        found=wording.found,
        places_of=wording.where,
        drawn=lambda result: mutants(result.mutants),
        absences=wording.absences,
        percent=wording.percent,
    )
    outcome = worst_outcome([result.outcome for result in results])
    template = environment.get_template("selftest.html.j2")
    return template.render(results=results, worst=outcome)


def write_html(path: Path, results: Sequence[SelftestResult]) -> None:
    """Write the page in one step. Raises `ReportError` when `path` cannot be written."""
    write_report(path, to_text(results), "HTML report")


def _sections(result: SelftestResult) -> list[_Section]:
    return [
        _Section(fate, heading, _CLASSES[fate], result.of(fate))
        for fate, heading in wording.HEADINGS.items()
        if result.of(fate)
    ]
