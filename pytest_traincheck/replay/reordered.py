"""Batches that hold golden's parts at other places, as where a dataset returns its tensors in another order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_traincheck.replay.calls import Calls
from pytest_traincheck.replay.computed import Call, Tensor, apart
from pytest_traincheck.replay.tolerance import agreement, epsilon


def parts_of_batch(calls: Calls, golden: Call, candidate: Call) -> Mapping[str, Tensor]:
    """The parts of a candidate's batch, each at the place that golden's has.

    That is where they lie, unless they are golden's in another order, all batches of the step have that order, and its
    losses are golden's: then whoever takes the batch apart knows of it. Otherwise a label and a mask may have been
    mixed up, or what evaluation is given.
    """
    batch = calls.golden.results.get(golden.index, {})
    made = calls.candidate.results.get(candidate.index, {})
    places = _places(batch, made)
    if places is None or all(slot == place for slot, place in places.items()):
        return made
    if not _same_losses(calls, golden) or any(found != places for found in _of_step(calls, golden)):
        return made
    return {slot: made[place] for slot, place in places.items()}


def _of_step(calls: Calls, batch: Call) -> Iterator[Mapping[str, str] | None]:
    """Where the parts of all batches of a step lie."""
    for call in calls.golden.calls.values():
        if call.kind == "data" and call.window == batch.window and call.index in calls.pairs:
            made = calls.candidate.results.get(calls.pairs[call.index], {})
            yield _places(calls.golden.results.get(call.index, {}), made)


def _places(batch: Mapping[str, Tensor], made: Mapping[str, Tensor]) -> Mapping[str, str] | None:
    """Part of golden's -> the one of the candidate that is the same, its own where it is; None where one is nowhere."""
    if batch.keys() != made.keys():
        return None
    found = {slot: slot for slot in batch if _alike(batch[slot], made[slot])}
    for slot in batch.keys() - found.keys():
        left = (place for place in made if place not in found.values() and _alike(batch[slot], made[place]))
        place = next(left, None)
        if place is None:
            return None
        found[slot] = place
    return found


def _alike(part: Tensor, other: Tensor) -> bool:
    return part.dtype == other.dtype and apart(part, other) <= agreement(epsilon(part.dtype))


def _same_losses(calls: Calls, batch: Call) -> bool:
    """Whether all losses of the step for which a batch was fetched are golden's."""
    of_step = (call for call in calls.golden.calls.values() if call.window == batch.window and call.begin > batch.end)
    passes = [call for call in of_step if call.kind == "autograd"]
    return bool(passes) and all(_same_loss(calls, call) for call in passes)


def _same_loss(calls: Calls, golden: Call) -> bool:
    ours = calls.golden.inputs.get(golden.index, {})
    theirs = calls.candidate.inputs.get(calls.pairs.get(golden.index, -1), {})
    return bool(ours) and ours.keys() == theirs.keys() and all(_alike(ours[slot], theirs[slot]) for slot in ours)
