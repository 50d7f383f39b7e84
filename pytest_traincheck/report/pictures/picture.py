"""A picture with the question that it answers, the answer in words, and the same as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pytest_traincheck.report.pictures.svg import icon, rect


@dataclass(frozen=True)
class Key:
    """An entry of a legend: a patch of a class, or what is `drawn` instead, and what it stands for."""

    class_: str
    meaning: str
    drawn: Markup | None = None


@dataclass(frozen=True)
class Table:
    """The text alternative: `rows` of as many cells as there are `columns`. The first cell names its row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Picture:
    """One figure of a page.

    `name` is an id, `question` what a reader asks, `answer` a sentence. `wide` drawings are scrolled where a page is
    narrow; where there are several they stand side by side.
    """

    name: str
    question: str
    answer: str
    drawings: tuple[Markup, ...]
    table: Table
    legend: tuple[Key, ...] = ()
    wide: bool = False
    open: bool = False
    """Whether the table is part of what is seen at once."""


def swatch(key: Key) -> Markup:
    """The patch of a legend."""
    return icon(16, 12, key.drawn or rect(2, 1, 12, 10, key.class_))


def bar(parts: Sequence[tuple[str, float]], whole: float, width: float = 160) -> Markup:
    """A bar of parts of these classes, as long as its share of `whole`; its numbers stand beside it in words."""
    drawn, x = [], 0.0
    for class_, value in parts:
        if value <= 0:
            continue
        length = max(2.0, width * value / whole) if whole else 0.0
        drawn.append(rect(x, 1, max(length - 1, 1.5), 10, class_, radius=1.5))
        x += length
    return icon(max(width, x), 12, *drawn, class_="bar-icon")
