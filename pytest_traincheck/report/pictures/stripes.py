"""Batches as stripes: the same as golden's, shuffled, repeated or new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pytest_traincheck.golden.portrait import Portrait
from pytest_traincheck.report.pictures.picture import Key, Picture, Table
from pytest_traincheck.report.pictures.svg import drawing, element, group, rect, text
from pytest_traincheck.text import plural

_WIDTH, _LEFT, _CELL, _HEIGHT = 880.0, 86.0, 52.0, 36.0
_MOST = 32
"""Batches that are drawn."""
_MEANING = {
    "same": "golden's batch of this place",
    "moved": "golden's batch of another place",
    "repeated": "given before in this run",
    "new": "not among golden's",
}
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Stripe:
    """One batch: the step, a name that equal batches share, and what it is beside golden's."""

    step: int
    name: str
    sort: str


def stripes(candidate: Portrait, golden: Portrait | None) -> Picture | None:
    """The batches of the first rank of both sides; None where none is known."""
    theirs = _sequence(candidate)
    mine = _sequence(golden) if golden is not None and golden.seed == candidate.seed else []
    if not theirs:
        return None
    names = _names([*mine, *theirs])
    rows = [("golden", _sorted(mine, mine, names))] if mine else []
    rows.append(("candidate" if mine else "this run", _sorted(theirs, mine, names)))
    own = rows[-1][1]
    if len(own) < 2:
        return None
    sorts = list(dict.fromkeys(stripe.sort for _, row in rows for stripe in row[:_MOST]))
    return Picture(
        "batches",
        "Is the model given golden's batches, in the same order?" if mine else "Which batches is the model given?",
        _answer(own, bool(mine), golden is not None and not mine),
        (_draw(rows),),
        _table(rows),
        tuple(
            Key(f"p-batch-{sort}", "no other batch is like it" if sort == "new" and not mine else meaning)
            for sort, meaning in _MEANING.items()
            if sort in sorts
        ),
        wide=True,
    )


def _sequence(portrait: Portrait | None) -> list[tuple[int, str]]:
    if portrait is None or not portrait.ranks:
        return []
    return [(step, digest) for step, made in enumerate(portrait.ranks[0].batches) for digest in made]


def _names(batches: Sequence[tuple[int, str]]) -> dict[str, str]:
    """A letter for each different batch, then letters with numbers."""
    known = dict.fromkeys(digest for _, digest in batches)
    return {
        digest: _LETTERS[place % 26] + (str(place // 26) if place >= 26 else "") for place, digest in enumerate(known)
    }


def _sorted(
    batches: Sequence[tuple[int, str]], golden: Sequence[tuple[int, str]], names: dict[str, str]
) -> list[Stripe]:
    there = {digest for _, digest in golden}
    before: set[str] = set()
    found = []
    for place, (step, digest) in enumerate(batches):
        if place < len(golden) and golden[place][1] == digest:
            sort = "same"
        elif digest in before:
            sort = "repeated"
        else:
            sort = "moved" if digest in there else "new"
        before.add(digest)
        found.append(Stripe(step, names[digest], sort))
    return found


def _answer(own: Sequence[Stripe], compared: bool, other_seed: bool) -> str:
    count = {sort: sum(stripe.sort == sort for stripe in own) for sort in _MEANING}
    if not compared:
        different = len({stripe.name for stripe in own})
        why = " It ran with another seed than the golden run whose batches are known." if other_seed else ""
        return f"{plural(len(own), 'batch').replace('batchs', 'batches')}, {different} of them different.{why}"
    if count["same"] == len(own):
        return f"Yes: all {len(own)} are golden's, in the same order."
    first = next(stripe for stripe in own if stripe.sort != "same")
    parts = [
        f"{number} {'is' if number == 1 else 'are'} {words}" if number else ""
        for number, words in (
            (count["moved"], "golden's of another place"),
            (count["repeated"], "given a second time"),
            (count["new"], "not among golden's"),
        )
    ]
    kept = f"{count['same'] or 'None'} of {len(own)} {'are' if count['same'] > 1 else 'is'} golden's of the same place"
    listed = ", ".join([kept, *filter(None, parts)])
    return f"No: from step {first.step} on they are others. {listed}."


def _draw(rows: Sequence[tuple[str, list[Stripe]]]) -> Markup:
    count = max(min(len(row), _MOST) for _, row in rows)
    cell = min(_CELL, (_WIDTH - _LEFT) / count)
    parts: list[Markup] = []
    for place, (label, row) in enumerate(rows):
        y = place * (_HEIGHT + 8)
        parts.append(text(label, 0, y + _HEIGHT / 2 + 4, "p-label"))
        for number, stripe in enumerate(row[:_MOST]):
            x = _LEFT + number * cell
            parts.append(
                group(
                    [
                        element("title", f"{label}, step {stripe.step}: batch {stripe.name}, {_MEANING[stripe.sort]}"),
                        rect(x, y, cell - 3, _HEIGHT, f"p-batch-{stripe.sort}", radius=4),
                        text(stripe.name, x + (cell - 3) / 2, y + _HEIGHT / 2 + 4, "p-letter", "middle"),
                    ]
                )
            )
    bottom = len(rows) * (_HEIGHT + 8)
    axis = rows[-1][1][:_MOST]
    shown = [
        (place, stripe.step) for place, stripe in enumerate(axis) if not place or axis[place - 1].step != stripe.step
    ]
    stride = max(1, len(shown) // 12)
    parts += [text(str(step), _LEFT + place * cell + (cell - 3) / 2, bottom + 10, "p-tick", "middle")
              for place, step in shown[::stride]]  # fmt: skip
    parts.append(text("step", 0, bottom + 10, "p-tick"))
    said = "; ".join(f"{label}: {' '.join(stripe.name for stripe in row[:_MOST])}" for label, row in rows)
    return drawing(
        _LEFT + cell * count, bottom + 16, "Batches", f"A letter for each different batch, in order. {said}.", *parts
    )


def _table(rows: Sequence[tuple[str, list[Stripe]]]) -> Table:
    lines = [(label, str(stripe.step), stripe.name, _MEANING[stripe.sort]) for label, row in rows for stripe in row]
    return Table(("run", "step", "batch", "what it is"), tuple(lines))
