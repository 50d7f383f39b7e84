"""The planted mistakes of a selftest: a mark for each, by what it is about, and what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup

from pytest_traincheck.report.pictures.picture import Key, Picture, Table
from pytest_traincheck.report.pictures.svg import drawing, element, group, line, text
from pytest_traincheck.selftest.result import Fate, Mutant
from pytest_traincheck.text import one_line, plural

WIDTH, _LEFT, _CELL, _ROW = 880.0, 110.0, 20.0, 28.0

_ORDER = (Fate.SURVIVED, Fate.KILLED, Fate.CRASHED, Fate.EQUIVALENT, Fate.NOT_APPLICABLE)


def mutants(found: Sequence[Mutant]) -> Picture | None:
    """A row for each group of kinds; None where nothing was planted."""
    if not found:
        return None
    groups: dict[str, list[Mutant]] = {}
    for mutant in found:
        groups.setdefault(mutant.kind.group, []).append(mutant)
    seen = Counter(mutant.fate for mutant in found)
    return Picture(
        "mutants",
        "Which planted mistakes were found?",
        _answer(seen),
        (_draw(groups),),
        _table(groups),
        tuple(Key("", fate.value, mark(fate, 8, 6)) for fate in _ORDER if seen[fate]),
        wide=True,
    )


def _answer(seen: Counter[Fate]) -> str:
    survived = seen[Fate.SURVIVED]
    found = seen[Fate.KILLED] + seen[Fate.CRASHED]
    words = f"All {found}." if not survived else f"{found} were found and {survived} not."
    left = seen[Fate.EQUIVALENT] + seen[Fate.NOT_APPLICABLE]
    return words + (f" {plural(left, 'other')} had no place in this pipeline or no effect." if left else "")


def _draw(groups: Mapping[str, Sequence[Mutant]]) -> Markup:
    across = int((WIDTH - _LEFT) / _CELL)
    parts: list[Markup] = []
    y = 0.0
    for name, members in groups.items():
        parts.append(text(one_line(name), 0, y + 18, "p-label"))
        for place, mutant in enumerate(sorted(members, key=lambda mutant: _ORDER.index(mutant.fate))):
            x = _LEFT + place % across * _CELL + _CELL / 2
            at = y + place // across * _CELL + 14
            parts.append(
                group([element("title", f"{mutant.kind.name}: {mutant.fate.value}"), mark(mutant.fate, x, at)])
            )
        y += _ROW + (len(members) - 1) // across * _CELL
        parts.append(line(0, y - 1, WIDTH, y - 1, "p-grid"))
    said = "; ".join(f"{name}: {_counts(members)}" for name, members in groups.items())
    return drawing(WIDTH, y + 2, "Planted mistakes", f"{said}.", *parts)


def mark(fate: Fate, x: float, y: float) -> Markup:
    """Each fate has a shape of its own."""
    return _MARKS[fate](x, y)


def _diamond(x: float, y: float) -> Markup:
    return element("path", d=f"M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7 -7z", class_="p-fate-0")


def _disc(x: float, y: float) -> Markup:
    return element("circle", cx=x, cy=y, r=5.6, class_="p-fate-1")


def _triangle(x: float, y: float) -> Markup:
    return element("path", d=f"M{x:.1f} {y - 6:.1f}l6.5 11.5h-13z", class_="p-fate-2")


def _ring(x: float, y: float) -> Markup:
    return element("circle", cx=x, cy=y, r=5.0, class_="p-fate-3")


def _dot(x: float, y: float) -> Markup:
    return element("circle", cx=x, cy=y, r=2.2, class_="p-fate-4")


_MARKS: Mapping[Fate, Callable[[float, float], Markup]] = {
    Fate.SURVIVED: _diamond,
    Fate.KILLED: _disc,
    Fate.CRASHED: _triangle,
    Fate.EQUIVALENT: _ring,
    Fate.NOT_APPLICABLE: _dot,
}


def _counts(members: Sequence[Mutant]) -> str:
    seen = Counter(mutant.fate for mutant in members)
    return ", ".join(f"{seen[fate]} {fate.value}" for fate in _ORDER if seen[fate])


def _table(groups: Mapping[str, Sequence[Mutant]]) -> Table:
    rows = []
    for name, members in groups.items():
        seen = Counter(mutant.fate for mutant in members)
        rows.append((one_line(name), *(str(seen[fate] or "") for fate in _ORDER)))
    return Table(("about", *(fate.value for fate in _ORDER)), tuple(rows))
