"""Steps whose gradients are golden's up to rounding, whatever way they were computed; and gradients that differ where
nothing else does.

A comparison call by call ends where a model is given something else, as with a batch in several parts. What a step uses
is golden's all the same where the sums are: then nothing that goes into a gradient has changed. Sums in another order
differ in the last digits, and far less than by a changed `eps`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from pytest_traincheck.replay.calls import Calls, Compared, Status
from pytest_traincheck.replay.computed import Call, Tensor, apart
from pytest_traincheck.replay.tolerance import COARSE, allowance, epsilon

LAST_DIGITS = 2.0**-20
"""Relative distance up to which a number is golden's."""
_NOISE = 4
"""Rounding units, of the largest gradient of an optimizer, that the others may be off besides."""


def steps_alike(calls: Calls) -> frozenset[int]:
    """The candidate's windows in which every optimizer step began with golden's parameters and used golden's gradients;
    none where any of the steps that were sketched did not.
    """
    golden = [call for call in calls.golden.calls.values() if call.kind == "optimizer"]
    found: set[int] = set()
    for call in golden:
        counterpart = calls.pairs.get(call.index)
        other = calls.candidate.calls[counterpart] if counterpart is not None else None
        if other is None or not _alike(calls, call, other):
            return frozenset()
        found.add(other.window)
    return frozenset(found)


def _alike(calls: Calls, golden: Call, candidate: Call) -> bool:
    ours, theirs = calls.golden.hyper.get(golden.index), calls.candidate.hyper.get(candidate.index)
    eps = max(calls.precision[golden.index], epsilon("float32"))
    if ours is None or theirs is None or eps > COARSE:
        return False
    sizes: list[tuple[float, float, float]] = []
    for kind, name in calls.golden.values:
        value = calls.golden.value(kind, name, ours[0])
        if kind not in ("parameter", "gradient") or value is None:
            continue
        other = calls.candidate.value(kind, name, theirs[0])
        if other is None:
            return False
        off = apart(value, other)
        if kind == "parameter" and off > LAST_DIGITS:
            return False
        if kind == "gradient":
            sizes.append((off, value.norm, math.sqrt(max(value.size, 1))))
    largest = max((norm / root for _, norm, root in sizes), default=0.0)
    if not largest or not math.isfinite(largest):
        return False
    return all(
        off == 0 or (norm > 0 and off <= LAST_DIGITS + _NOISE * eps * largest * root / norm)
        for off, norm, root in sizes
    )


_ONE_MORE = 4
"""How many times as far as a result of that precision a gradient may be off that comes out of one last sum."""
_MANY = 64
"""Calls that the tolerance of what a whole step computes allows for."""
_SINGLE = 64
"""Rounding units of single precision, of the largest gradient, that a sum in single precision may be off."""


def singled_out(
    calls: Calls, backward: Call, found: Mapping[str, tuple[Tensor, float]], eps: float
) -> Mapping[str, float]:
    """How far each of these gradients may be off where all that differs are gradients of parameters that only modules
    of torch's read, in single precision; empty where that is not so.

    Where autocast rounds to few digits, a gradient that cancels to nothing may be off by as much as the largest is. It
    may not where all other gradients are golden's to the last bit, and so is what the modules returned: then what goes
    backward was rounded as golden's, and what is left is the last sum over it, which these modules make in single
    precision. For a kernel that rounds what it passes on to them otherwise, a few digits of its own size are allowed.

    Args:
        found: for each gradient the tensor of golden's, and how far the candidate's is from it.
        eps: the coarsest rounding unit of the step.
    """
    off = [name for name, (_, distance) in found.items() if distance]
    kept = [ours for ours, distance in found.values() if not distance and ours.norm > 0]
    if not off or not kept or not all(_in_single_precision(calls, backward, name) for name in off):
        return {}
    largest = max(ours.norm / math.sqrt(max(ours.size, 1)) for ours, _ in found.values())
    own = _ONE_MORE * allowance(eps, _MANY, _MANY)
    single = _SINGLE * epsilon("float32") * largest
    return {
        name: own + (single * math.sqrt(ours.size) / ours.norm if ours.norm else math.inf)
        for name, (ours, _) in found.items()
        if name in off
    }


def _in_single_precision(calls: Calls, backward: Call, name: str) -> bool:
    """Whether a parameter is read by modules of torch's alone in the step, and all that they are given and return has
    the digits of single precision, and is golden's to the last bit.
    """
    readers = list(_readers(calls, backward, name))
    return bool(readers) and all(
        found is not None
        and found.status is Status.SAME
        and not found.given
        and (found.golden.kind != "module" or found.golden.name.startswith("torch.nn."))
        and all(epsilon(tensor.dtype) <= epsilon("float32") for tensor in _tensors(calls, found))
        for found in readers
    )


def _readers(calls: Calls, backward: Call, name: str) -> Iterator[Compared | None]:
    """The comparisons of golden's calls of the module that a parameter is of, and of all that are given the same."""
    module = name.rpartition(".")[0]
    value = calls.golden.value("parameter", name, backward.end)
    for call in calls.golden.calls.values():
        if call.window != backward.window or call.end > backward.begin or call.kind not in ("module", "function"):
            continue
        given = calls.golden.inputs.get(call.index, {}).values()
        if call.module == module or (value is not None and any(apart(value, tensor) == 0 for tensor in given)):
            yield calls.compared.get(call.index)


def _tensors(calls: Calls, found: Compared) -> Iterator[Tensor]:
    for side, call in ((calls.golden, found.golden), (calls.candidate, found.candidate)):
        for table in (side.inputs, side.results):
            yield from table.get(call.index, {}).values()
