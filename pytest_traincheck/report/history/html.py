"""A history as a page: no script, nothing loaded, readable in light and dark and on paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_traincheck import __version__
from pytest_traincheck.check.result import Outcome
from pytest_traincheck.history.record import Record
from pytest_traincheck.history.story import Pipeline, Ran, seconds_of
from pytest_traincheck.report.history import wording
from pytest_traincheck.report.html import template_environment
from pytest_traincheck.report.wording import seconds

_SHOWN = 120
"""Checks in the pictures of a pipeline, the last ones."""
_WIDTH, _HEIGHT = 720.0, 64.0


@dataclass(frozen=True)
class Mark:
    """One check in a picture: its place, how it came out, and what a pointer or a screen reader is told."""

    x: float
    width: float
    outcome: Outcome
    label: str


@dataclass(frozen=True)
class Curve:
    """Seconds of checks as the points of an SVG polyline, lines broken where nothing ran; `top` is the upper end."""

    lines: tuple[str, ...]
    dots: tuple[tuple[float, float, str], ...]
    top: str


def to_text(records: Sequence[Record], stories: Sequence[Pipeline], sentences: Mapping[str, str]) -> str:
    """The page. `sentences` are those of rules by id, as far as they are known."""
    environment = template_environment()
    environment.filters["capitalized"] = lambda text: text[:1].upper() + text[1:]
    environment.globals.update(
        accepted=wording.accepted,
        at=wording.at,
        broke=wording.broke,
        columns=wording.COLUMNS,
        curve=curve,
        learned=wording.learned,
        marks=marks,
        named=wording.named,
        outcomes=wording.outcomes,
        row=wording.row,
        silent=wording.silent,
        summary=wording.summary,
    )
    template = environment.get_template("history.html.j2")
    return template.render(records=records, stories=stories, sentences=sentences, version=__version__)


def marks(story: Pipeline) -> list[Mark]:
    """The last checks, from left to right, the same distance from each other whenever they were."""
    shown = story.checks[-_SHOWN:]
    step = _WIDTH / max(len(shown), 20)
    return [
        Mark(
            round(place * step, 2),
            round(step * 0.8, 2),
            ran.entry.verdict,
            _label(ran),
        )
        for place, ran in enumerate(shown)
    ]


def _label(ran: Ran) -> str:
    titles = "; ".join(incident.title for incident in ran.entry.incidents[:3])
    return f"{ran.entry.verdict.value}, {wording.at(ran.record)}" + (f": {titles}" if titles else "")


def curve(story: Pipeline) -> Curve | None:
    """What the last checks took; None where fewer than two did anything."""
    shown = story.checks[-_SHOWN:]
    step = _WIDTH / max(len(shown), 20)
    taken = [seconds_of(ran.entry) for ran in shown]
    known = [value for value in taken if value is not None]
    if len(known) < 2:
        return None
    top = max(known)
    lines: list[list[str]] = [[]]
    dots: list[tuple[float, float, str]] = []
    for place, (ran, value) in enumerate(zip(shown, taken, strict=True)):
        if value is None:
            lines.append([])
            continue
        x, y = round((place + 0.4) * step, 2), round(_HEIGHT - value / top * (_HEIGHT - 6) - 3, 2)
        lines[-1].append(f"{x},{y}")
        dots.append((x, y, f"{seconds(value)}, {wording.at(ran.record)}"))
    return Curve(tuple(" ".join(line) for line in lines if len(line) > 1), tuple(dots), seconds(top))
