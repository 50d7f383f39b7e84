"""Batches whose parts belong together: rows that stand side by side, labels that belong to their inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pytest_traincheck.replay.calls import Calls
from pytest_traincheck.replay.point import Point
from pytest_traincheck.replay.sides import INFINITE, PAIRS, ROWS, Call, Side, Tensor, apart
from pytest_traincheck.replay.tolerance import agreement, epsilon

_FEW = 16
"""Elements of a part of a batch that say which samples are in it."""


def paired_batches(calls: Calls, window: int, start: tuple[float, float]) -> Iterator[Point]:
    """Batches of which the largest part is golden's: then the rest is, as labels that belong to their inputs.

    Of batches that workers make nothing is said but which rows stand side by side: their random draws nobody sees.
    """
    ours, theirs = calls.golden, calls.candidate
    for golden in ours.calls.values():
        other = calls.pairs.get(golden.index)
        if golden.kind != "data" or golden.window != window or other is None:
            continue
        candidate = theirs.calls[other]
        yield from _side_by_side(ours, theirs, golden, candidate)
        if calls.workers:
            continue
        since = min(start[0], golden.begin), min(start[1], candidate.begin)
        batch, made = ours.results.get(golden.index, {}), theirs.results.get(other, {})
        if not batch or batch.keys() != made.keys():
            continue
        if not calls.same_draws(since, (golden.end, candidate.end)):
            return
        off = {slot: apart(tensor, made[slot]) for slot, tensor in batch.items()}
        largest = max(tensor.size for tensor in batch.values())
        kept = [slot for slot in batch if off[slot] == 0 and batch[slot].size == largest and _telling(batch[slot])]
        wrong = [slot for slot in batch if off[slot] > agreement(epsilon(batch[slot].dtype))]
        if kept:
            names = tuple(slot.removeprefix("out.") for slot in wrong)
            worst = max(off[slot] for slot in wrong) if wrong else 0.0
            yield Point("batch", golden, candidate, worst, 0.0, names, kept[0].removeprefix("out."))


def _side_by_side(golden: Side, candidate: Side, batch: Call, other: Call) -> Iterator[Point]:
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


def _telling(tensor: Tensor) -> bool:
    """Whether a part of a batch says which samples are in it: a mask, or one number repeated, does not."""
    squares = tensor.norm**2
    same = math.isclose(squares, tensor.size * tensor.mean**2, rel_tol=1e-9, abs_tol=1e-12)
    binary = math.isclose(squares, tensor.size * tensor.mean, rel_tol=1e-9, abs_tol=1e-12)
    return tensor.size >= _FEW and not same and not binary
