"""One HTML page for a refresh: what every subject lost and gained, why, and both runs beside each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_traincheck.check.result import Outcome
from pytest_traincheck.golden.diff import Change, GoldenDiff
from pytest_traincheck.report.check_pictures import portrayed
from pytest_traincheck.report.files import write_report
from pytest_traincheck.report.html import template_environment, worst_outcome
from pytest_traincheck.report.pictures.picture import Picture
from pytest_traincheck.report.pictures.subjects import subjects
from pytest_traincheck.report.refresh.result import Refreshed
from pytest_traincheck.rules.model import Invariant

WORDS = {Outcome.PASS: "refreshed", Outcome.FAIL: "refused", Outcome.ERROR: "error"}


def to_text(found: Sequence[Refreshed]) -> str:
    """The page for one or several pipelines."""
    environment = template_environment()
    environment.globals.update(pictures=_pictures, sections=_sections, words=WORDS)
    worst = worst_outcome([item.outcome for item in found])
    return environment.get_template("refresh.html.j2").render(found=found, worst=worst)


def write_html(path: Path, found: Sequence[Refreshed]) -> None:
    """Write the page in one step. Raises `ReportError` when `path` cannot be written."""
    write_report(path, to_text(found), "HTML report")


def _pictures(item: Refreshed) -> list[Picture]:
    first = subjects(item.change, item.learned) if item.change is not None else None
    return [*([first] if first else []), *portrayed(item.result)]


def _sections(change: GoldenDiff) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Every rule that changed as subject, what it said and what it says, by the sort of its change."""
    found = (
        ("removed", _rules(change.removed, before=True)),
        ("added", _rules(change.added, before=False)),
        ("changed", _changes((*change.changed, *change.replaced))),
        ("weaker", _changes(change.weaker)),
        ("stronger", _changes(change.stronger)),
    )
    return [(label, rows) for label, rows in found if rows]


def _rules(rules: Iterable[Invariant], *, before: bool) -> list[tuple[str, str, str]]:
    return [(rule.subject, *((rule.sentence, "") if before else ("", rule.sentence))) for rule in rules]


def _changes(changes: Iterable[Change]) -> list[tuple[str, str, str]]:
    return [(change.new.subject, change.old.sentence, change.new.sentence) for change in changes]
