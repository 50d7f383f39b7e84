"""One HTML page for a check: no external resources, light and dark, printable, everything escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from pytest_traincheck import __version__
from pytest_traincheck.check.result import ChangedLines, CheckResult, InvariantVerdict, Outcome, SideInfo, Verdict
from pytest_traincheck.report import wording
from pytest_traincheck.report.audit import wording as audit_wording
from pytest_traincheck.report.check_pictures import pictures_of
from pytest_traincheck.report.files import write_report
from pytest_traincheck.report.pictures.picture import swatch
from pytest_traincheck.report.pictures.svg import patterns
from pytest_traincheck.rules.wording import conditions
from pytest_traincheck.text import one_line, plural

_VERDICT_MEANING = {
    Verdict.VIOLATED: "Broken by the candidate, as a cause or as a consequence.",
    Verdict.ACCEPTED: "Broken, with an exception on file.",
    Verdict.NOT_OBSERVABLE: "The probe could not see what the rule needs.",
    Verdict.NOT_TRIGGERED: "The context of the rule never came up.",
    Verdict.HELD: "Checked and kept.",
}


@dataclass(frozen=True)
class _Group:
    """The rules that share a verdict, with their share of all rules in percent."""

    verdict: Verdict
    meaning: str
    share: float
    items: tuple[InvariantVerdict, ...]


@dataclass(frozen=True)
class _Fact:
    """One row of the comparison of both sides."""

    label: str
    golden: str
    candidate: str
    differs: bool


def to_text(results: Sequence[CheckResult]) -> str:
    """The page for one or several results."""
    return template_environment().get_template("report.html.j2").render(**check_context(results))


def check_context(results: Sequence[CheckResult], *, base: int = 1) -> dict[str, Any]:
    """What the page of checks is rendered with; `base` is the level of its first heading."""
    return {
        "results": results,
        "worst": worst_outcome([result.outcome for result in results]),
        "base": base,
        "places": _places(results),
    }


def _places(results: Sequence[CheckResult]) -> list[tuple[str, str]]:
    """Where a reader may want to go: the parts of one result, or several results."""
    if len(results) != 1:
        return [(f"pipeline-{number}", result.pipeline) for number, result in enumerate(results, 1)]
    (result,) = results
    found = (
        ("incidents-1", "What broke", bool(result.incidents)),
        ("pictures-1", "Pictures", bool(pictures_of(result))),
        ("rules-1", "Rules", bool(result.verdicts)),
        ("sides-1", "Both sides", bool(_facts(result))),
    )
    return [(anchor, label) for anchor, label, there in found if there]


def write_html(path: Path, results: Sequence[CheckResult]) -> None:
    """Write the page in one step. Raises `ReportError` when `path` cannot be written."""
    write_report(path, to_text(results), "HTML report")


def template_environment() -> jinja2.Environment:
    """Templates, and what they are written with."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pytest_traincheck.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        prose=_prose,
        name=_name,
        cell=_cell,
        clean=wording.clean,
        one_line=one_line,
        seconds=wording.seconds,
        plural=plural,
    )
    environment.globals.update(
        conditions=conditions,
        consequences=wording.consequences,
        diff_lines=_diff_lines,
        agreement=wording.agreement,
        audit_counts=audit_wording.counts,
        audit_details=audit_wording.details,
        coverage=wording.coverage,
        excused=wording.excused,
        facts=_facts,
        next_steps=wording.next_steps,
        groups=_groups,
        patterns=patterns,
        pictures=pictures_of,
        swatch=swatch,
        version=__version__,
        output_lines=wording.output_lines,
        reasons=wording.reasons,
        renamed=wording.renamed,
        timing=wording.timing,
        verdict_summary=wording.verdict_summary,
        where=wording.where,
    )
    return environment


def _prose(text: str) -> Markup:
    """A sentence with what stands in backticks as code; everything is escaped."""
    parts = one_line(text).split("`")
    if len(parts) % 2 == 0:
        return escape(one_line(text))
    return Markup().join(
        Markup("<code>{}</code>").format(_name(part)) if index % 2 else escape(part) for index, part in enumerate(parts)
    )


def _cell(text: str) -> Markup:
    """A cell of a table: a bar as it was drawn, or text in which sentences may have code."""
    if isinstance(text, Markup):
        return text
    return _prose(text) if " " in text else _name(text)


def _name(text: str) -> Markup:
    """A dotted name or path that may be broken after a dot, slash or underscore, where a reader expects it."""
    escaped = escape(one_line(text))
    for mark in "./_":
        escaped = Markup(str(escaped).replace(mark, f"{mark}<wbr>"))
    return escaped


def _diff_lines(diff: ChangedLines) -> list[tuple[str, str]]:
    """Every line of a hunk with the class that marks it; the text is escaped by the template."""
    classes = {"+": "added", "-": "removed", "@": "place"}
    lines = [wording.clean(line) for line in diff.hunk.split("\n")]
    return [(classes.get(line[:1], "same"), line) for line in lines]


def worst_outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """The worst of several; an error where nothing was checked."""
    known = set(outcomes) or {Outcome.ERROR}
    return next(outcome for outcome in (Outcome.ERROR, Outcome.FAIL, Outcome.PASS) if outcome in known)


def _groups(result: CheckResult) -> list[_Group]:
    groups = []
    for verdict, meaning in _VERDICT_MEANING.items():
        items = sorted(
            (item for item in result.verdicts if item.verdict is verdict),
            key=lambda item: (item.invariant.subject, item.invariant.relation, item.invariant.sentence),
        )
        if items:
            groups.append(_Group(verdict, meaning, 100 * len(items) / len(result.verdicts), tuple(items)))
    return groups


def _facts(result: CheckResult) -> list[_Fact]:
    golden, candidate = _side_facts(result.golden), _side_facts(result.candidate)
    labels = [*golden, *(label for label in candidate if label not in golden)]
    return [
        # Another commit, place and number of runs is how a comparison works, not a difference to look at.
        _Fact(label, mine, theirs, mine != theirs and label not in ("commit", "path", "runs"))
        for label in labels
        for mine, theirs in [(golden.get(label, ""), candidate.get(label, ""))]
        if mine or theirs
    ]


def _side_facts(side: SideInfo) -> dict[str, str]:
    facts = {"commit": side.commit, "command": side.command, "path": side.path, "runs": str(side.runs or "")}
    return facts | {key: side.environment[key] for key in sorted(side.environment)}
