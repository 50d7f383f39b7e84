"""Steps whose gradients are golden's up to rounding, whatever way they were computed.

A comparison call by call ends where a model is given something else, as with a batch in several parts. What a step uses
is golden's all the same where the sums are: then nothing that goes into a gradient has changed. Sums in another order
differ in the last digits, and far less than by a changed `eps`.
"""

from __future__ import annotations

import math

from pytest_traincheck.replay.calls import Calls
from pytest_traincheck.replay.computed import Call, apart
from pytest_traincheck.replay.tolerance import COARSE, epsilon

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
