"""Which optimizer group holds which parameters, and what none holds."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from pytest_traincheck.golden.portrait import Group, Portrait
from pytest_traincheck.report.pictures.picture import Key, Picture, Table
from pytest_traincheck.report.pictures.svg import CHARACTER, drawing, element, group, rect, text
from pytest_traincheck.text import one_line, plural

WIDTH, _LEFT, _HEIGHT = 880.0, 86.0, 36.0
_LEAST = 10.0
"""Pixels of the smallest group, so that none is overlooked."""
_SHADES = 4


def groups(candidate: Portrait, golden: Portrait | None) -> Picture | None:
    """Bars of both sides, as long as there are numbers in the groups; None where there is no optimizer."""
    if not any(item.optimizer for item in candidate.groups):
        return None
    rows = [("golden", golden.groups)] if golden and golden.groups else []
    rows.append(("candidate" if rows else "this run", candidate.groups))
    none = any(not item.optimizer for _, row in rows for item in row)
    return Picture(
        "groups",
        "Which optimizer group trains which parameters?",
        _answer(candidate.groups, golden.groups if golden else ()),
        (_draw(rows),),
        _table(rows),
        (
            Key("p-group-0", "a group, as wide as it has numbers"),
            *([Key("p-nobody", "held by no optimizer")] if none else []),
        ),
        wide=True,
    )


def label_of(item: Group) -> str:
    """ "AdamW, group 1"."""
    if not item.optimizer:
        return "no optimizer"
    return f"{one_line(item.optimizer)}, group {item.index}"


def count(number: int) -> str:
    """ "812", "1.2 k", "34 M"."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return str(number)


def _answer(found: Sequence[Group], golden: Sequence[Group]) -> str:
    held = [item for item in found if item.optimizer]
    nobody = sum(item.trainable for item in found if not item.optimizer)
    total = sum(item.tensors for item in held)
    words = f"{plural(total, 'parameter')} in {plural(len(held), 'group')}."
    if nobody:
        words += f" {plural(nobody, 'trainable parameter')} {'is' if nobody == 1 else 'are'} in none."
    if golden:
        differ = [said for said in (_difference(item, golden) for item in found) if said]
        differ += [f"{label_of(item)} is gone" for item in golden if _of(item, found) is None]
        words += f" Not as in the golden run: {'; '.join(differ[:3])}." if differ else " As in the golden run."
    return words


def _difference(item: Group, golden: Sequence[Group]) -> str:
    """How a group differs from golden's, in words; empty where it does not."""
    other = _of(item, golden)
    if other is None:
        return f"{label_of(item)} is new"
    was = dict(other.settings)
    parts = [
        f"{name} {value}, was {was.get(name, 'not set')}" for name, value in item.settings if was.get(name) != value
    ]
    for what in ("tensors", "trainable"):
        mine, theirs = getattr(item, what), getattr(other, what)
        word = "parameters" if what == "tensors" else "of them trainable"
        parts += [f"{mine} {word}, was {theirs}"] if mine != theirs else []
    return f"{label_of(item)} has {' and '.join(parts)}" if parts else ""


def _of(item: Group, others: Sequence[Group]) -> Group | None:
    return next((other for other in others if (item.optimizer, item.index) == (other.optimizer, other.index)), None)


def _draw(rows: Sequence[tuple[str, Sequence[Group]]]) -> Markup:
    parts: list[Markup] = []
    whole = max(sum(item.elements for item in row) for _, row in rows) or 1
    most = max(len(row) for _, row in rows)
    room = WIDTH - _LEFT - _LEAST * most
    shades = {
        label: place % _SHADES
        for place, label in enumerate(dict.fromkeys(label_of(item) for _, row in rows for item in row))
    }
    for place, (label, row) in enumerate(rows):
        y = place * (_HEIGHT + 8)
        parts.append(text(label, 0, y + _HEIGHT / 2 + 4, "p-label"))
        x = _LEFT
        for item in row:
            width = _LEAST + room * item.elements / whole
            class_ = f"p-group-{shades[label_of(item)]}" if item.optimizer else "p-nobody"
            words = _words(item, width - 16)
            parts.append(
                group(
                    [
                        element(
                            "title", f"{label_of(item)}: {plural(item.tensors, 'parameter')}, {item.elements} numbers"
                        ),
                        rect(x, y, width - 2, _HEIGHT, class_, radius=4),
                        text(words, x + 9, y + _HEIGHT / 2 + 4, "p-cell"),
                    ]
                )
            )
            x += width
    said = "; ".join(f"{label}: {_listed(row)}" for label, row in rows)
    return drawing(WIDTH, len(rows) * (_HEIGHT + 8), "Optimizer groups", f"{said}.", *parts)


def _words(item: Group, room: float) -> str:
    """As much as there is room for."""
    number = f"{count(item.elements)} numbers"
    settings = ", ".join(f"{name} {value}" for name, value in item.settings[:2])
    choices = (f"{label_of(item)}: {number}, {settings}".removesuffix(", "), f"{label_of(item)}: {number}", number)
    return next((words for words in (*choices, count(item.elements)) if len(words) * CHARACTER < room), "")


def _listed(row: Sequence[Group]) -> str:
    return ", ".join(f"{label_of(item)} {plural(item.tensors, 'parameter')}" for item in row)


def _table(rows: Sequence[tuple[str, Sequence[Group]]]) -> Table:
    lines = []
    for label, row in rows:
        for item in row:
            settings = ", ".join(f"{name} {value}" for name, value in item.settings)
            names = ", ".join(item.names) + (
                f" and {item.tensors - len(item.names)} more" if item.tensors > len(item.names) else ""
            )
            lines.append(
                (label, label_of(item), str(item.tensors), str(item.trainable), str(item.elements), settings, names)
            )
    return Table(("run", "group", "parameters", "trainable", "numbers", "settings", "first of them"), tuple(lines))
