"""The ranks of a run side by side: batches, collectives, and gradients that ought to be equal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from pytest_traincheck.golden.portrait import Portrait, Rank
from pytest_traincheck.report.pictures.picture import Key, Picture, Table
from pytest_traincheck.report.pictures.scale import short
from pytest_traincheck.report.pictures.svg import drawing, element, group, rect, text
from pytest_traincheck.text import plural

_WIDTH, _LEFT, _ROW, _MOST = 880.0, 86.0, 40.0, 16
_SAME = 1e-4
"""Relative distance of norms that are called equal: they are kept with five digits."""


def ranks(candidate: Portrait, golden: Portrait | None) -> Picture | None:
    """A row for each rank and a cell for each step; None for a single process."""
    if len(candidate.ranks) < 2:
        return None
    steps = min(max(len(rank.norms) for rank in candidate.ranks), _MOST)
    return Picture(
        "ranks",
        "Do all ranks go the same way?",
        _answer(candidate.ranks, golden.ranks if golden else ()),
        (_draw(candidate.ranks, steps),),
        _table(candidate.ranks),
        (
            Key("p-same", "gradient norm of rank 0"),
            *([Key("p-off-3", "another gradient norm")] if differing(candidate.ranks) else []),
        ),
        wide=True,
    )


def differing(found: Sequence[Rank]) -> list[int]:
    """The steps in which gradient norms differ between ranks."""
    count = min((len(rank.norms) for rank in found), default=0)
    return [step for step in range(count) if not all(_equal(found[0].norms[step], rank.norms[step]) for rank in found)]


def shared(found: Sequence[Rank]) -> list[int]:
    """The steps in which two ranks are given the same batch."""
    count = min((len(rank.batches) for rank in found), default=0)
    return [
        step
        for step in range(count)
        if len({rank.batches[step] for rank in found if rank.batches[step]})
        < sum(bool(rank.batches[step]) for rank in found)
    ]


def _equal(first: float, second: float) -> bool:
    return (math.isnan(first) and math.isnan(second)) or math.isclose(first, second, rel_tol=_SAME)


def _answer(found: Sequence[Rank], golden: Sequence[Rank]) -> str:
    apart = differing(found)
    words = (
        f"Gradient norms differ between ranks from step {apart[0]} on, in {plural(len(apart), 'step')}."
        if apart
        else "Gradient norms are equal on all ranks in every step."
    )
    alike = shared(found)
    if alike:
        words += f" In {plural(len(alike), 'step')}, the first of them {alike[0]}, ranks are given the same batch."
    elif any(any(rank.batches) for rank in found):
        words += " Each rank is given batches of its own."
    if len(golden) > 1:
        as_golden = (bool(differing(golden)), bool(shared(golden))) == (bool(apart), bool(alike))
        words += " So it was in the golden run." if as_golden else " It was otherwise in the golden run."
    return words


def _draw(found: Sequence[Rank], steps: int) -> Markup:
    cell = min(76.0, (_WIDTH - _LEFT) / max(steps, 1))
    parts: list[Markup] = []
    for place, rank in enumerate(found):
        y = place * _ROW
        parts.append(text(f"rank {rank.rank}", 0, y + 22, "p-label"))
        for step in range(min(steps, len(rank.norms))):
            same = step < len(found[0].norms) and _equal(found[0].norms[step], rank.norms[step])
            x = _LEFT + step * cell
            value = rank.norms[step]
            shown = "" if math.isnan(value) else format(value, ".3g")
            parts.append(
                group(
                    [
                        element("title", _said(rank, step)),
                        rect(x, y, cell - 3, _ROW - 6, "p-same" if same else "p-off-3", radius=4),
                        text(shown if cell > 38 else "", x + (cell - 3) / 2, y + 21, "p-cell", "middle"),
                        *([] if same else [text("≠", x + 5, y + 12, "p-marked")]),
                    ]
                )
            )
    bottom = len(found) * _ROW
    parts.append(text("step", 0, bottom + 10, "p-tick"))
    parts += [
        text(str(step), _LEFT + step * cell + (cell - 3) / 2, bottom + 10, "p-tick", "middle") for step in range(steps)
    ]
    return drawing(
        _LEFT + cell * steps,
        bottom + 16,
        "Gradient norms by rank and step",
        f"{plural(len(found), 'rank')} and {plural(steps, 'step')}; {plural(len(differing(found)), 'step')} in which "
        "ranks differ.",
        *parts,
    )


def _said(rank: Rank, step: int) -> str:
    calls = rank.collectives[step] if step < len(rank.collectives) else 0
    return f"rank {rank.rank}, step {step}: gradient norm {short(rank.norms[step])}, {plural(calls, 'collective')}"


def _table(found: Sequence[Rank]) -> Table:
    lines = []
    for step in range(max(len(rank.norms) for rank in found)):
        for rank in found:
            if step >= len(rank.norms):
                continue
            batch = ", ".join(rank.batches[step]) if step < len(rank.batches) else ""
            calls = str(rank.collectives[step]) if step < len(rank.collectives) else ""
            lines.append((str(step), str(rank.rank), short(rank.losses[step]), short(rank.norms[step]), calls, batch))
    return Table(("step", "rank", "loss", "gradient norm", "collectives", "batch"), tuple(lines))
