"""What a training step is given: its batches, and the parameters and buffers that it begins with."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_traincheck.golden.recording import ENTRY, GRAD, TRAINING
from pytest_traincheck.replay.calls import Calls
from pytest_traincheck.replay.computed import INFINITE, Call, Computed, Tensor, apart
from pytest_traincheck.replay.draws import Times
from pytest_traincheck.replay.reordered import parts_of_batch
from pytest_traincheck.replay.tolerance import agreement, epsilon

_FEWEST, _OTHER = 16, 0.01
"""Numbers of an input that stands for the examples of a batch, and how far at least it is from that of another batch.
"""


def given_apart(calls: Calls, window: int, start: Times) -> float | None:
    """Relative distance of what both sides begin a step with; None where it is not the same or not known."""
    batches = batches_apart(calls, window)
    if batches is None:
        return None
    worst = batches
    at = settled(calls.golden, start[0]), settled(calls.candidate, start[1])
    for kind, name in calls.golden.values:
        if kind not in ("parameter", "buffer"):
            continue
        value = calls.golden.value(kind, name, at[0])
        if value is None:
            continue
        off = calls.variable_apart(kind, name, at[0], at[1])
        if off > agreement(epsilon(value.dtype) or epsilon("float32")):
            return None
        worst = max(worst, off)
    return worst


def batches_apart(calls: Calls, window: int) -> float | None:
    """Distance of the batches of a step: what loaders gave, or the largest input of the first forward pass."""
    ours, theirs = (
        [call for call in side.calls.values() if call.window == window and call.kind == "data"]
        for side in (calls.golden, calls.candidate)
    )
    if len(ours) != len(theirs):
        return None
    if not ours:
        return _anchor(calls, window)
    worst = 0.0
    for golden, candidate in zip(ours, theirs, strict=True):
        batch, other = calls.golden.results.get(golden.index), parts_of_batch(calls, golden, candidate)
        if not batch or not other or batch.keys() != other.keys():
            return None
        off = [apart(tensor, other[slot]) for slot, tensor in batch.items()]
        limits = [agreement(epsilon(tensor.dtype)) for tensor in batch.values()]
        if any(found > limit for found, limit in zip(off, limits, strict=True)):
            return None
        worst = max(worst, *off)
    return worst


def _anchor(calls: Calls, window: int) -> float | None:
    call = _forward(calls.golden, window)
    if call is None:
        return _anchor_of_functions(calls, window)
    other = calls.pairs.get(call.index)
    inputs = calls.golden.inputs.get(call.index, {})
    if other is None or not inputs:
        return None
    slot = max(inputs, key=lambda name: inputs[name].size)
    given = calls.candidate.inputs.get(other, {})
    # The same tensor under another name is the same: `forward` may call its arguments as it likes.
    found = [given[slot]] if slot in given else list(given.values())
    off = min((apart(inputs[slot], tensor) for tensor in found), default=INFINITE)
    return off if off <= agreement(epsilon(inputs[slot].dtype)) else _beside(calls, call, slot, given)


def _forward(side: Computed, window: int) -> Call | None:
    """The forward pass that a step trains by: the first in train mode. A policy, or a model with frozen statistics,
    may be trained in eval mode; there an evaluation may stand before it, so it is the last before the backward pass.
    """
    wanted = TRAINING | GRAD | ENTRY
    mine = [call for call in side.calls.values() if call.window == window]
    modules = [call for call in mine if call.kind == "module"]
    for call in modules:
        if call.flags & wanted == wanted:
            return call
    backward = min((call.begin for call in mine if call.kind == "autograd"), default=INFINITE)
    trained = [call for call in modules if call.index in side.trained_in_eval and call.begin < backward]
    return max(trained, key=lambda call: call.begin, default=None)


def _anchor_of_functions(calls: Calls, window: int) -> float | None:
    """The same where functions are all that there is: distance of what tells examples apart among their inputs, as
    long as one such input is golden's; None where none is.
    """
    if any(call.flags & ENTRY for call in calls.golden.calls.values()):
        return None
    for call in calls.golden.calls.values():
        if call.window != window or call.kind != "function" or call.parent >= 0 or not call.flags & GRAD:
            continue
        given = calls.candidate.inputs.get(calls.pairs.get(call.index, -1), {})
        for slot, tensor in calls.golden.inputs.get(call.index, {}).items():
            if slot in given and _tells_examples(calls, call, slot, tensor):
                off = apart(tensor, given[slot])
                if off <= agreement(epsilon(tensor.dtype)):
                    return off
    return None


def _beside(calls: Calls, call: Call, different: str, given: Mapping[str, Tensor]) -> float | None:
    """Distance of what stands beside an input that is not golden's; None where nothing there tells examples apart.

    Floating-point numbers that are others in golden's other steps, and are these in both runs, belong to the same
    examples, as the bonds of graphs do whose edges are numbered otherwise.
    """
    found = [
        apart(tensor, given[slot])
        for slot, tensor in calls.golden.inputs[call.index].items()
        if slot != different and slot in given and _tells_examples(calls, call, slot, tensor)
    ]
    return max(found, default=None) if found and max(found) <= agreement(epsilon("float32")) else None


def _tells_examples(calls: Calls, call: Call, slot: str, tensor: Tensor) -> bool:
    if tensor.size < _FEWEST or not epsilon(tensor.dtype):
        return False
    others = (
        calls.golden.inputs.get(other.index, {}).get(slot)
        for other in calls.golden.calls.values()
        if other.module == call.module and other.window != call.window
    )
    distances = [apart(tensor, other) for other in others if other is not None]
    return bool(distances) and min(distances) > _OTHER


def settled(side: Computed, at: float) -> float:
    """The first time after `at` when variables have been looked at: right after the next forward pass began, or the
    one that is under way.
    """
    entries = [call for call in side.calls.values() if call.flags & ENTRY and call.end > at]
    if not entries and not any(call.flags & ENTRY for call in side.calls.values()):
        # Without a model variables are looked at when gradients have come.
        return min((c.end for c in side.calls.values() if c.kind == "autograd" and c.end > at), default=side.last)
    if not entries or not _within_transform(side, entries[0]):
        return side.inside(entries[0]) if entries else side.last
    # There nothing can be looked at, and an optimizer looks before it works.
    looks: list[float] = [begin for begin, _ in side.hyper.values() if begin > at]
    looks += [side.inside(call) for call in entries if not _within_transform(side, call)]
    return min(looks, default=side.last)


def _within_transform(side: Computed, call: Call) -> bool:
    """Whether a model was called inside of `vmap`, `grad` and the like: only what it is given is sketched there."""
    return call.index in side.inputs and call.index not in side.results
