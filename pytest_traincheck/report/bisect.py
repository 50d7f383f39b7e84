"""What a bisect found, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_traincheck.check.result import CheckResult, Incident
from pytest_traincheck.detail import Detail
from pytest_traincheck.launch.bisection import Commit, Mark
from pytest_traincheck.report.files import write_report
from pytest_traincheck.report.incident import render_incident_text
from pytest_traincheck.report.layout import wrap
from pytest_traincheck.report.wording import next_lines
from pytest_traincheck.text import one_line, plural

FORMAT = 1
"""Version of the JSON object."""

_MARK_WIDTH = 6


@dataclass(frozen=True)
class Tested:
    """A commit that was checked, what it is, and why, in a sentence."""

    commit: Commit
    mark: Mark
    reason: str = ""
    result: CheckResult | None = None


@dataclass(frozen=True)
class BisectReport:
    """A bisect of one pipeline. `rule` is the id of the rule that was followed.

    `first_bad` is None when only commits are left that could not be tested; then `possible` holds them and the first
    bad one that could.
    """

    pipeline: str
    rule: str
    good: Commit
    bad: Commit
    tested: tuple[Tested, ...]
    first_bad: Tested | None = None
    possible: tuple[Commit, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def incident(self) -> Incident | None:
        """What the first bad commit brought."""
        return incident_of(self.first_bad.result, self.rule) if self.first_bad and self.first_bad.result else None


def incident_of(result: CheckResult, rule: str) -> Incident | None:
    """The incident in which a rule is broken, as its cause or as a consequence."""
    return next(
        (item for item in result.incidents if any(broken.invariant.id == rule for broken in item.violations)), None
    )


def render_tested(tested: Tested, width: int = 80) -> str:
    """One line of progress: the mark, the commit, and below it why."""
    head = f"{tested.mark.value:<{_MARK_WIDTH}}{tested.commit.short}  "
    lines = wrap(one_line(tested.commit.subject), width, indent=" " * len(head), first=head)
    if tested.reason:
        lines += wrap(one_line(tested.reason), width, indent=" " * _MARK_WIDTH)
    return "\n".join(lines)


def render_end(report: BisectReport, width: int = 80, detail: Detail = Detail.USUAL) -> str:
    """What was found."""
    return "\n".join(_end(report, width, detail))


def _end(report: BisectReport, width: int, detail: Detail) -> Iterator[str]:
    if report.first_bad is None:
        skipped = sum(tested.mark is Mark.SKIP for tested in report.tested)
        yield from wrap(
            f"The first bad commit is one of {len(report.possible)}: the rest is known, and "
            f"{plural(skipped, 'commit')} could not be tested.",
            width,
            first="",
        )
        for commit in report.possible:
            yield from wrap(one_line(commit.subject), width, indent=" " * 16, first=f"  {commit.short}  ")
    else:
        commit = report.first_bad.commit
        yield f"first bad commit: {commit.hash}"
        for label, text in (("author:", commit.author), ("date:", commit.date), ("subject:", commit.subject)):
            yield from wrap(one_line(text), width, indent=" " * 11, first=f"  {label:<9}")
        if len(commit.parents) > 1:
            yield from wrap(
                f"a merge of {len(commit.parents)} commits, each of which is good; the diff is to the first",
                width,
                indent=" " * 11,
            )
        if report.incident is not None:
            yield ""
            yield render_incident_text(report.incident, width, detail)
    for note in report.notes:
        yield from wrap(one_line(note), width, indent="      ", first="note: ")
    found = report.first_bad.result if report.first_bad is not None else None
    if found is not None and (commands := next_lines(found, width)):
        yield from ("", *commands)


def document(report: BisectReport) -> dict[str, Any]:
    """The JSON object of a bisect."""
    first = report.first_bad
    incident = report.incident
    found = first.result.to_json() if first is not None and first.result is not None else {}
    return {
        "format": FORMAT,
        "pipeline": report.pipeline,
        "rule": report.rule,
        "good": _commit(report.good),
        "bad": _commit(report.bad),
        "first_bad": None if first is None else _commit(first.commit),
        "possible": [_commit(commit) for commit in report.possible],
        "incident": next(
            (item for item in found.get("incidents", ()) if incident is not None and item["id"] == incident.id), None
        ),
        "commands": found.get("commands"),
        "tested": [
            {**_commit(item.commit), "verdict": item.mark.value, "reason": item.reason} for item in report.tested
        ],
        "notes": list(report.notes),
    }


def write_bisect_json(path: Path, report: BisectReport) -> None:
    """Write the object in one step. Raises `ReportError` when `path` cannot be written."""
    write_report(path, json.dumps(document(report), indent=2) + "\n", "JSON report")


def _commit(commit: Commit) -> dict[str, Any]:
    return {"commit": commit.hash, "author": commit.author, "date": commit.date, "subject": commit.subject}
