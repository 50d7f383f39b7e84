"""The checks of a pipeline over time: how they came out, and what they took."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from pytest_traincheck.check.result import Outcome
from pytest_traincheck.history.story import Pipeline, Ran, seconds_of
from pytest_traincheck.report.history import wording
from pytest_traincheck.report.pictures.picture import Key, Picture, Table
from pytest_traincheck.report.pictures.scale import Scale
from pytest_traincheck.report.pictures.svg import drawing, element, line, rect, text
from pytest_traincheck.report.wording import seconds
from pytest_traincheck.text import one_line

_SHOWN = 120
"""Checks that are drawn, the last ones."""
_FEWEST = 20
"""Fewer stand as far from each other as so many would."""
_WIDTH = 880.0
_MARKS = {Outcome.PASS: ("p-held", 10.0), Outcome.FAIL: ("p-violated", 26.0), Outcome.ERROR: ("p-accepted", 18.0)}
"""Class and height of the mark of each outcome: no colour stands alone."""
_HIGH = 26.0
_PLOT = 90.0


def checks(story: Pipeline) -> tuple[Picture, ...]:
    """What there is to draw of one pipeline: nothing where it was never checked."""
    shown = story.checks[-_SHOWN:]
    if not shown:
        return ()
    taken = [(place, ran, value) for place, ran in enumerate(shown) if (value := seconds_of(ran.entry)) is not None]
    return (_outcomes(story, shown), _durations(story, shown, taken)) if len(taken) > 1 else (_outcomes(story, shown),)


def _outcomes(story: Pipeline, shown: Sequence[Ran]) -> Picture:
    step = _step(shown)
    marks = [
        rect(place * step, _HIGH - height, step * 0.8, height, class_, _label(ran))
        for place, ran in enumerate(shown)
        for class_, height in (_MARKS[ran.entry.verdict],)
    ]
    seen = {ran.entry.verdict for ran in shown}
    return Picture(
        f"outcomes-{story.name}",
        "When did it fail?",
        f"{wording.outcomes(story)}.",
        (drawing(_WIDTH, _HIGH, "How checks came out, the oldest on the left", f"{wording.outcomes(story)}.", *marks),),
        Table(
            ("check", "outcome", "incidents"),
            tuple((wording.at(ran.record), ran.entry.verdict.value, _titles(ran)) for ran in shown),
        ),
        tuple(
            Key("", outcome.value, rect(4, 12 - height / 3, 8, height / 3, class_))
            for outcome, (class_, height) in _MARKS.items()
            if outcome in seen
        ),
        wide=True,
    )


def _durations(story: Pipeline, shown: Sequence[Ran], taken: Sequence[tuple[int, Ran, float]]) -> Picture:
    step, top = _step(shown), max(value for _, _, value in taken)
    high = Scale(0.0, top, _PLOT - 4, 14.0)
    places = [((place + 0.4) * step, high(value)) for place, _, value in taken]
    said = f"Between {seconds(min(value for _, _, value in taken))} and {seconds(top)}, the last one " + seconds(
        taken[-1][2]
    )
    curve = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    content: list[Markup] = [
        line(0, high(top), _WIDTH, high(top), "p-grid"),
        line(0, high(0.0), _WIDTH, high(0.0), "p-grid"),
        text(seconds(top), 0, high(top) - 4, "p-tick"),
        element("polyline", points=curve, class_="p-curve"),
        *(element("circle", cx=x, cy=y, r=2.2, class_="p-point") for x, y in places),
    ]
    return Picture(
        f"durations-{story.name}",
        "Does it become slower?",
        f"{said}.",
        (drawing(_WIDTH, _PLOT, "What the run and its check took", f"{said}.", *content),),
        Table(("check", "took"), tuple((wording.at(ran.record), seconds(value)) for _, ran, value in taken)),
        wide=True,
    )


def _step(shown: Sequence[Ran]) -> float:
    """The same distance between all, whenever they were."""
    return _WIDTH / max(len(shown), _FEWEST)


def _titles(ran: Ran) -> str:
    return "; ".join(one_line(incident.title) for incident in ran.entry.incidents[:3])


def _label(ran: Ran) -> str:
    titles = _titles(ran)
    return f"{ran.entry.verdict.value}, {wording.at(ran.record)}" + (f": {titles}" if titles else "")
