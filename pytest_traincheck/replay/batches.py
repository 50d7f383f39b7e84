"""Batches of the same rows: which rows of their tensors stand side by side."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_traincheck.replay.point import Point
from pytest_traincheck.replay.sides import INFINITE, PAIRS, ROWS, Call, Side


def side_by_side(golden: Side, candidate: Side, batch: Call, other: Call) -> Iterator[Point]:
    """Of a batch whose tensors have golden's rows, in whatever order: that each row has golden's row beside it."""
    ours, theirs = golden.together.get(batch.index, {}), candidate.together.get(other.index, {})
    compared: dict[str, bool] = {}
    largest = ""
    for slot, digest in ours.items():
        head, _, rest = slot.partition(".")
        if head != PAIRS or slot not in theirs:
            continue
        largest, _, name = rest.partition("|")
        if all(ours.get(rows) == theirs.get(rows) for rows in (f"{ROWS}.{largest}", f"{ROWS}.{name}")):
            compared[name] = digest == theirs[slot]
    if compared:
        wrong = tuple(name for name, same in compared.items() if not same)
        yield Point("together", batch, other, INFINITE if wrong else 0.0, 0.0, wrong, largest)
