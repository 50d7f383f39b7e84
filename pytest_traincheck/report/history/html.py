"""A history as a page: no script, nothing loaded, readable in light and dark and on paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_traincheck.history.record import Record
from pytest_traincheck.history.story import Pipeline
from pytest_traincheck.report.history import wording
from pytest_traincheck.report.html import template_environment
from pytest_traincheck.report.pictures.checks import checks


def to_text(records: Sequence[Record], stories: Sequence[Pipeline], sentences: Mapping[str, str]) -> str:
    """The page. `sentences` are those of rules by id, as far as they are known."""
    environment = template_environment()
    environment.filters["capitalized"] = lambda text: text[:1].upper() + text[1:]
    environment.globals.update(
        accepted=wording.accepted,
        at=wording.at,
        broke=wording.broke,
        checks=checks,
        columns=wording.COLUMNS,
        learned=wording.learned,
        named=wording.named,
        row=wording.row,
        silent=wording.silent,
        summary=wording.summary,
    )
    template = environment.get_template("history.html.j2")
    return template.render(records=records, stories=stories, sentences=sentences)
