"""Whole traces of processes that go on with each other, as the trace of one; and how one knows that they do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.begun_with import (
    ENOUGH,
    begun_with,
    contents,
    first_step,
    held,
    part_alike,
    restores_optimizer,
    saves,
    written,
)
from pytest_traincheck.trace.columns import Columns
from pytest_traincheck.trace.continued import Source, Splice, end_of, joined_meta
from pytest_traincheck.trace.limit import cut_at_limit, left_at_limit
from pytest_traincheck.trace.reader import RawTrace

LATEST = 16
"""Of what a process has saved, so many of the last are looked at."""


def follows(first: RawTrace, second: RawTrace) -> bool:
    """Whether a process began when another one had ended on its own account: it may go on with what that has left."""
    ended, started = first.meta.get("ended"), second.meta.get("started")
    if ended is None or started is None or cut_at_limit(first.meta) or left_at_limit(first.meta):
        return False
    return bool(ended <= started)


def goes_on(first: RawTrace, second: RawTrace) -> bool:
    """Whether a process trains on with what another one has left, as far as both of them show.

    It gives an optimizer the state of another one, and what training had changed is what it was when the first saved
    or ended. Weights alone may as well be what another training begins with.
    """
    begin = first_step(second.symbols, second.events)
    if begin is None or not restores_optimizer(second.symbols, second.events) or not follows(first, second):
        return False
    wanted = begun_with(second.symbols, _changes(second), begin)
    numbers = {key: number for number, key in held(first.symbols).items() if key in wanted}
    rows = _changes(first)
    rows = rows[np.isin(rows["subject"], [*numbers.values()])]
    before = contents(rows[::-1], numbers.values())
    calls = saves(first.symbols, first.events)[-LATEST:]
    times = [(int(call["seq"]), int(max(call["seq"], call["end"]))) for call in calls]
    measures = first.events[np.flatnonzero(first.events["kind"] == fmt.MEASURE)]
    return any(
        part_alike(
            numbers,
            before,
            contents(rows[rows["seq"] <= end], numbers.values()),
            written(first.symbols, measures[measures["parent"] == begin], numbers.values()),
            wanted,
        )
        >= ENOUGH
        for begin, end in (*times, (0, end_of(first.events)))
    )


def as_one(first: RawTrace, second: RawTrace) -> RawTrace:
    """The second process in the symbols and times of both, behind the first."""
    splice = Splice.behind(first.symbols, end_of(first.events))
    return replace(
        first,
        meta=joined_meta(first.meta, second.meta),
        symbols=splice.tables(first.symbols, second.symbols),
        events=first.events.followed_by(Columns.of(splice.events(second.events[:]))),
        joins=(*first.joins, splice.shift),
        sources=(*(first.sources or (Source(first.path),)), Source(second.path, splice)),
    )


def _changes(raw: RawTrace) -> np.ndarray:
    found: np.ndarray = raw.events[np.flatnonzero(raw.events["kind"] == fmt.CHANGE)]
    return found
