"""A bisect as a line of commits, in the order in which they were tried."""

from __future__ import annotations

from markupsafe import Markup

from pytest_traincheck.launch.bisection import Mark
from pytest_traincheck.report.bisect import BisectReport
from pytest_traincheck.report.pictures.picture import Key, Picture, Table
from pytest_traincheck.report.pictures.svg import drawing, element, fitted, group, line, text
from pytest_traincheck.text import one_line, plural

WIDTH, _ROW, _RAIL = 880.0, 44.0, 14.0


def commits(report: BisectReport) -> Picture:
    """A row for each commit that was tried."""
    bad = report.first_bad
    answer = (
        f"`{bad.commit.short}`, found among {plural(len(report.tested), 'tried commit')}."
        if bad is not None
        else f"One of {len(report.possible)}, between which nothing decides."
    )
    seen = {tested.mark for tested in report.tested}
    return Picture(
        "commits",
        "Which commit brought it?",
        answer,
        (_draw(report),),
        Table(
            ("commit", "verdict", "subject", "why"),
            tuple(
                (item.commit.short, item.mark.value, one_line(item.commit.subject), one_line(item.reason))
                for item in report.tested
            ),
        ),
        tuple(Key("", verdict.value, mark(verdict, 8, 6, 0.7)) for verdict in Mark if verdict in seen),
        wide=True,
    )


def _draw(report: BisectReport) -> Markup:
    parts: list[Markup] = []
    count = len(report.tested)
    if count > 1:
        parts.append(line(_RAIL, _ROW / 2, _RAIL, (count - 0.5) * _ROW, "p-rail"))
    for place, item in enumerate(report.tested):
        y = place * _ROW + _ROW / 2
        first = report.first_bad is not None and item.commit.hash == report.first_bad.commit.hash
        head = f"{item.commit.short}  {one_line(item.commit.subject)}"
        parts.append(
            group(
                [
                    element("title", f"{item.mark.value}: {head}"),
                    mark(item.mark, _RAIL, y),
                    text(item.mark.value, 36, y + 4, "p-label"),
                    text(item.commit.short, 84, y + 4, "p-code"),
                    text(
                        _head(one_line(item.commit.subject), 500), 184, y + 4, "p-cell p-strong" if first else "p-cell"
                    ),
                    *([text("first bad commit", WIDTH - 8, y + 4, "p-marked", "end")] if first else []),
                ]
            )
        )
    said = "; ".join(f"{item.commit.short} {item.mark.value}" for item in report.tested)
    return drawing(WIDTH, count * _ROW, "Commits that were tried", f"{said}.", *parts)


def _head(content: str, width: float) -> str:
    """A sentence is cut at its end."""
    return content if fitted(content, width) == content else content[: int(width / 6.4) - 1] + "…"


def mark(verdict: Mark, x: float, y: float, size: float = 1.0) -> Markup:
    """Each verdict has a shape of its own."""
    if verdict is Mark.BAD:
        half = 9 * size
        data = f"M{x:.1f} {y - half:.1f}l{half:.1f} {half:.1f}l-{half:.1f} {half:.1f}l-{half:.1f} -{half:.1f}z"
        return element("path", d=data, class_="p-commit-bad")
    return element("circle", cx=x, cy=y, r=7.0 * size, class_=f"p-commit-{verdict.value}")
