"""A step as a timeline: golden's calls above, the candidate's below, the first difference marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from markupsafe import Markup

from pytest_traincheck.golden.portrait import Call, Outline, Portrait
from pytest_traincheck.report.pictures.picture import Key, Picture, Table
from pytest_traincheck.report.pictures.svg import drawing, element, fitted, group, line, rect, text
from pytest_traincheck.text import one_line, plural

_WIDTH = 880.0
"""The widest drawing."""
_LEFT, _TOP, _ROW, _BAR = 168.0, 30.0, 32.0, 10.0
_COLUMNS = 64
"""Calls side by side that can still be told apart."""
_LANES = 14
"""Sorts of calls with a line of their own; further ones share the last."""
_OTHERS = "other calls"


@dataclass(frozen=True)
class Beat:
    """A place in a step: golden's call, the candidate's call, or both where they are the same."""

    call: Call
    golden: bool
    candidate: bool

    @property
    def same(self) -> bool:
        return self.golden and self.candidate


def timeline(candidate: Portrait, golden: Portrait | None, bad: int | None = None) -> Picture | None:
    """The first step in which calls differ, no later than the first that is wrong where that is known; the first full
    step where all are the same. None where no step was kept.
    """
    mine, theirs = golden.outline if golden else Outline(), candidate.outline
    step = _chosen(mine, theirs, bad)
    if step is None:
        return None
    alone = not mine.steps
    beats = aligned(theirs.step(step) if alone else mine.step(step), theirs.step(step))
    first = next((place for place, beat in enumerate(beats) if not beat.same), None)
    beats, first, more = _cut(beats, first)
    if not beats:
        return None
    return Picture(
        "timeline",
        f"What is called in step {step}?" if alone else f"Which calls make step {step}, and where do they part?",
        _answer(beats, first, more, alone=alone),
        (_draw(beats, first, step, alone=alone),),
        _table(beats, first, alone=alone),
        ()
        if alone
        else (
            Key("p-golden", "golden, above"),
            Key("p-candidate", "candidate, below"),
            *([Key("p-missing", "not called")] if first is not None else []),
        ),
        wide=True,
    )


def _chosen(mine: Outline, theirs: Outline, bad: int | None) -> int | None:
    count = min(len(mine.steps), len(theirs.steps)) if mine.steps else len(theirs.steps)
    if not count:
        return None
    differing = [step for step in range(count) if mine.steps and mine.step(step) != theirs.step(step)]
    if bad is not None and bad < count and (bad in differing or not differing):
        return bad
    return differing[0] if differing else min(1, count - 1)


def aligned(golden: Sequence[Call], candidate: Sequence[Call]) -> list[Beat]:
    """Both sequences beside each other, with as many calls as possible in the same places."""
    beats: list[Beat] = []
    matcher = SequenceMatcher(None, golden, candidate, autojunk=False)
    for tag, first, last, begin, end in matcher.get_opcodes():
        if tag == "equal":
            beats += [Beat(call, golden=True, candidate=True) for call in golden[first:last]]
        else:
            beats += [Beat(call, golden=True, candidate=False) for call in golden[first:last]]
            beats += [Beat(call, golden=False, candidate=True) for call in candidate[begin:end]]
    return beats


def _cut(beats: list[Beat], first: int | None) -> tuple[list[Beat], int | None, int]:
    """The part around the first difference, its place there, and how many calls that leaves out."""
    if len(beats) <= _COLUMNS:
        return beats, first, 0
    begin = max(0, min((first or 0) - _COLUMNS // 2, len(beats) - _COLUMNS))
    kept = beats[begin : begin + _COLUMNS]
    return kept, None if first is None else first - begin, len(beats) - len(kept)


def name_of(call: Call) -> str:
    """What a lane is called: the last parts of a long name."""
    parts = one_line(call.name).split(".")
    if call.kind == "module":
        return ".".join(parts) if not call.name.startswith("torch.") else parts[-1]
    if call.kind == "data":
        return "next batch"
    if call.kind in ("optimizer", "zero_grad", "scheduler", "scaler") and len(parts) > 1:
        return ".".join(parts[-2:])
    return parts[-1]


def _lanes(beats: Sequence[Beat]) -> dict[str, str]:
    """For each call's name the lane that it is drawn in, in the order of their first calls."""
    names = list(dict.fromkeys(name_of(beat.call) for beat in beats))
    if len(names) <= _LANES:
        return {name: name for name in names}
    differing = {name_of(beat.call) for beat in beats if not beat.same}
    kinds = {name_of(beat.call): beat.call.kind for beat in beats}
    # Functions are many; what steps are made of is told first.
    ranked = sorted(names, key=lambda name: (name not in differing, kinds[name] in ("function", "choice")))
    kept = set(ranked[: _LANES - 1])
    return {name: name if name in kept else _OTHERS for name in names}


def _answer(beats: Sequence[Beat], first: int | None, more: int, *, alone: bool) -> str:
    rest = f" {plural(more, 'call')} of it {'is' if more == 1 else 'are'} left out here." if more else ""
    if alone:
        return f"{plural(len(beats), 'call')}, from the end of one optimizer step to the end of the next.{rest}"
    if first is None:
        return f"They do not part: the same {plural(len(beats), 'call')} in the same order.{rest}"
    beat = beats[first]
    missing = sum(beat.golden and not beat.candidate for beat in beats)
    added = sum(beat.candidate and not beat.golden for beat in beats)
    words = "does not make" if beat.golden else "makes in addition"
    return (
        f"The first difference is a call of `{one_line(beat.call.name)}`, which the candidate {words}. "
        f"In all, {_number(missing)} of the golden calls {_verb(missing)} missing and {_number(added)} {_verb(added)} "
        f"new.{rest}"
    )


def _number(count: int) -> str:
    return str(count) if count else "none"


def _verb(count: int) -> str:
    return "are" if count > 1 else "is"


def _draw(beats: Sequence[Beat], first: int | None, step: int, *, alone: bool) -> Markup:
    lanes = _lanes(beats)
    rows = {lane: place for place, lane in enumerate(dict.fromkeys(lanes.values()))}
    height_of_row = _ROW * 0.7 if alone else _ROW
    column = min(72.0, (_WIDTH - _LEFT) / len(beats))
    width = max(_LEFT + column * len(beats), 420.0)
    top = _TOP if first is not None else 2.0
    bottom = top + height_of_row * len(rows)
    parts: list[Markup] = []
    if first is not None:
        x = _LEFT + first * column
        parts.append(rect(x, top - 8, column, bottom - top + 12, "p-focus", radius=3))
        side = "end" if x > width * 0.66 else "start"
        parts.append(text("first difference", x + (column if side == "end" else 0), top - 14, "p-marked", side))
    for lane, place in rows.items():
        y = top + place * height_of_row
        parts.append(line(0, y + height_of_row - 2, width, y + height_of_row - 2, "p-grid"))
        label = text(fitted(lane, _LEFT - 16), 0, y + height_of_row / 2 + 3, "p-label")
        parts.append(group([element("title", lane), label]))
    for place, beat in enumerate(beats):
        parts += _bars(
            beat,
            _LEFT + place * column,
            column,
            top + rows[lanes[name_of(beat.call)]] * height_of_row,
            alone=alone,
        )
    return drawing(width, bottom + 6, f"Calls of step {step}", _describe(beats, first, alone=alone), *parts)


def _bars(beat: Beat, x: float, column: float, y: float, *, alone: bool) -> list[Markup]:
    width = max(column - (3 if column > 12 else 1), 1.5)
    name = one_line(beat.call.name)
    if alone:
        return [rect(x, y + 5, width, _BAR, "p-candidate", name)]
    golden = rect(
        x, y + 3, width, _BAR, "p-golden" if beat.golden else "p-missing", f"golden: {_said(beat.golden, name)}"
    )
    candidate = rect(
        x,
        y + 5 + _BAR,
        width,
        _BAR,
        ("p-candidate" if beat.golden else "p-added") if beat.candidate else "p-missing",
        f"candidate: {_said(beat.candidate, name)}",
    )
    return [golden, candidate]


def _said(called: bool, name: str) -> str:
    return name if called else f"no {name}"


def _describe(beats: Sequence[Beat], first: int | None, *, alone: bool) -> str:
    if alone:
        return f"A row for each sort of call, {plural(len(beats), 'call')} from left to right."
    where = f"; the first difference is at call {first + 1}" if first is not None else "; no difference"
    return (
        f"A row for each sort of call, golden above and candidate below, {plural(len(beats), 'place')} from left to "
        f"right{where}. The table below says the same."
    )


def _table(beats: Sequence[Beat], first: int | None, *, alone: bool) -> Table:
    if alone:
        return Table(("call", "of"), tuple((str(place + 1), beat.call.name) for place, beat in enumerate(beats)))
    rows = []
    for place, beat in enumerate(beats):
        note = "" if beat.same else ("first difference" if place == first else "different")
        cells = (beat.call.name if beat.golden else "not called", beat.call.name if beat.candidate else "not called")
        rows.append((str(place + 1), *cells, note))
    return Table(("call", "golden", "candidate", ""), tuple(rows))
