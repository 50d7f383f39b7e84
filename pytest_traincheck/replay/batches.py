"""Batches of golden's examples: all of their parts are golden's, and rows that stand side by side belong together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from pytest_traincheck.replay.calls import Calls
from pytest_traincheck.replay.computed import INFINITE, PAIRS, ROWS, Call, Computed, Tensor, apart
from pytest_traincheck.replay.fetches import Fetch
from pytest_traincheck.replay.likeness import Likeness
from pytest_traincheck.replay.point import Point
from pytest_traincheck.replay.reordered import parts_of_batch
from pytest_traincheck.replay.tolerance import agreement, epsilon

_FEW = 16
"""Elements of a part of a batch that say which samples are in it."""
_ENOUGH = 16.0
"""Bits that say which examples are in a batch, where it is known which were to be."""
_BITS_OF_CLASSES, _BITS_OF_NUMBERS = 2.0, 8.0
"""The most bits that one element counts for: a class, a continuous number."""


def paired_batches(calls: Calls, likeness: Likeness, window: int, start: tuple[float, float]) -> Iterator[Point]:
    """Batches that hold golden's examples: then all of their parts are golden's, as labels that belong to their inputs.

    Those are batches of which the largest part is golden's, or which are made of the places that golden chose, and have
    a part or rows that say so: a dataset in another order has other examples in the same places. What is drawn while a
    batch is made must be the same. Workers draw unseen as well, and so does any dataset from generators of its own, so
    golden must have shown that such batches come again.

    What a dataset no longer prepares, as to scale images, the training step may do instead: then one of its calls is
    given what golden's loader returned.
    """
    ours, theirs = calls.golden, calls.candidate
    for golden in ours.calls.values():
        other = calls.pairs.get(golden.index)
        if golden.kind != "data" or golden.window != window or other is None:
            continue
        candidate = theirs.calls[other]
        yield from _side_by_side(ours, theirs, golden, candidate)
        batch, made = ours.results.get(golden.index, {}), parts_of_batch(calls, golden, candidate)
        if not batch or batch.keys() != made.keys():
            continue
        fetch, again = ours.fetched.get(golden.index), theirs.fetched.get(other)
        since = min(start[0], golden.begin), min(start[1], candidate.begin)
        if calls.workers or (fetch is not None and fetch.by_worker):
            if not _made_alike(calls, fetch, again):
                continue
        elif not calls.same_draws(since, (golden.end, candidate.end)):
            return
        off = {slot: apart(tensor, made[slot]) for slot, tensor in batch.items()}
        kept = _known_by(calls, likeness, (golden, candidate), made, off)
        if kept is None:
            continue
        wrong = [slot for slot in batch if off[slot] > agreement(epsilon(batch[slot].dtype))]
        wrong = [slot for slot in wrong if not _made_later(calls, batch[slot], candidate)]
        names = tuple(slot.removeprefix("out.") for slot in wrong)
        worst = max((off[slot] for slot in wrong), default=0.0)
        yield Point("batch", golden, candidate, worst, 0.0, names, kept.removeprefix("out."))


def made_elsewhere(calls: Calls, golden: Call) -> bool:
    """Whether workers make a batch of golden's in one run, and the training process in the other."""
    other = calls.pairs.get(golden.index)
    if golden.kind != "data" or other is None:
        return False
    fetch, again = calls.golden.fetched.get(golden.index), calls.candidate.fetched.get(other)
    return (fetch is not None and fetch.by_worker) != (again is not None and again.by_worker)


def _known_by(
    calls: Calls, likeness: Likeness, pair: tuple[Call, Call], made: Mapping[str, Tensor], off: Mapping[str, float]
) -> str | None:
    """The part by which a batch is known to hold golden's examples; empty where single rows say it, None where nothing
    does.
    """
    golden, candidate = pair
    batch = calls.golden.results[golden.index]
    largest = max(tensor.size for tensor in batch.values())
    kept = [slot for slot in batch if off[slot] == 0 and batch[slot].size == largest and _telling(batch[slot])]
    if kept or not _of_the_same(calls, golden, candidate):
        return kept[0] if kept else None
    kept = [slot for slot in batch if off[slot] == 0 and _information(batch[slot]) >= _ENOUGH]
    if kept:
        return kept[0]
    alike = all(_alike(batch[slot], made[slot]) for slot in batch)
    return "" if alike and likeness.same_examples(golden, candidate) else None


def _alike(tensor: Tensor, other: Tensor) -> bool:
    """Whether two parts of a batch can hold the same examples: padding, cropping and other dtypes change what they are
    made of, and not which they are.
    """
    return tensor.dtype == other.dtype and tensor.shape.split("x")[1:] == other.shape.split("x")[1:]


def _made_later(calls: Calls, part: Tensor, candidate: Call) -> bool:
    """Whether some call in the step of a batch is given what golden's loader returned."""
    if _information(part) < _ENOUGH:
        return False
    step = (call for call in calls.candidate.calls.values() if call.window == candidate.window)
    given = (calls.candidate.inputs.get(call.index, {}) for call in step if call.begin > candidate.end)
    limit = agreement(epsilon(part.dtype))
    return any(apart(part, tensor) <= limit for tensors in given for tensor in tensors.values())


def _side_by_side(golden: Computed, candidate: Computed, batch: Call, other: Call) -> Iterator[Point]:
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


def _made_alike(calls: Calls, fetch: Fetch | None, other: Fetch | None) -> bool:
    """Whether workers made two batches with the same draws, and golden's are known to come again."""
    if fetch is None or other is None or not calls.repeated:
        return False
    return (fetch.by_worker, fetch.drawn) == (other.by_worker, other.drawn)


def _of_the_same(calls: Calls, golden: Call, candidate: Call) -> bool:
    """Whether two batches are made of examples in the same places of datasets that were made of the same numbers."""
    fetch, other = calls.golden.fetched.get(golden.index), calls.candidate.fetched.get(candidate.index)
    if fetch is None or other is None or not fetch.chosen or fetch.chosen != other.chosen or not calls.repeated:
        return False
    # Of what was drawn before sketching began again nothing is known.
    return not calls.golden.since and calls.same_draws((0, 0), (golden.begin, candidate.begin))


def _information(tensor: Tensor) -> float:
    """About how many bits a part of a batch tells by which its examples are known; rather too few than too many."""
    if not tensor.size:
        return 0.0
    variance = max(tensor.norm**2 / tensor.size - tensor.mean**2, 0.0)
    if variance <= 1e-9 * tensor.norm**2 / tensor.size:
        return 0.0
    squares = tensor.norm**2
    binary = math.isclose(squares, tensor.size * tensor.mean, rel_tol=1e-9, abs_tol=1e-12)
    if binary or not epsilon(tensor.dtype):
        return tensor.size * min(_BITS_OF_CLASSES, 0.5 * math.log2(1 + 4 * variance))
    return tensor.size * _BITS_OF_NUMBERS


def _telling(tensor: Tensor) -> bool:
    """Whether a part of a batch says which samples are in it: a mask, or one number repeated, does not."""
    squares = tensor.norm**2
    same = math.isclose(squares, tensor.size * tensor.mean**2, rel_tol=1e-9, abs_tol=1e-12)
    binary = math.isclose(squares, tensor.size * tensor.mean, rel_tol=1e-9, abs_tol=1e-12)
    return tensor.size >= _FEW and not same and not binary
