"""Modules that give golden's result within rounding, and yet weigh otherwise within.

In half precision a result is rounded to two or three digits. That hides what a softmax makes of other scores: near zero
they give nearly equal weights, halved or not. The scores are seen all the same. Two ways to compute the same may differ
in a number that they add to all scores of a row, which a softmax ignores; so scores are compared without it. Or they
differ in what becomes of the weights, as where they are masked and divided by their sum afterwards; so the next call
must take the weights as they are.
"""

from __future__ import annotations

import math

from pytest_traincheck.replay.computed import Call, Computed, apart

_ROUNDED = 4.0
"""Roundings of a score that are allowed for."""


def weighs_otherwise(
    sides: tuple[Computed, Computed], calls: tuple[Call, Call], eps: float, limit: float
) -> tuple[float, float] | None:
    """How far apart the scores are that golden's and the candidate's call of a softmax weigh, and how far they may be;
    None where they are as far apart as rounding them to `eps` explains, or the next calls do not take the weights.

    `limit` is the relative distance up to which any two inputs count as the same.
    """
    scores, others = (side.scores.get(call.index) for side, call in zip(sides, calls, strict=True))
    given, found = (side.inputs.get(call.index, {}).get("in.input") for side, call in zip(sides, calls, strict=True))
    if scores is None or others is None or given is None or found is None or not scores.norm:
        return None
    off = apart(scores, others)
    allowed = limit + _ROUNDED * eps * max(given.norm, found.norm) / scores.norm
    taken = all(_goes_on(side, call) for side, call in zip(sides, calls, strict=True))
    return (off, allowed) if allowed < off < math.inf and taken else None


def _goes_on(side: Computed, call: Call) -> bool:
    """Whether the next call beside one is given its result."""
    weights = side.results.get(call.index, {}).get("out")
    later = [each for each in side.children.get(call.parent, ()) if side.calls[each].begin >= call.end]
    following = min(later, key=lambda each: side.calls[each].begin, default=None)
    given = side.inputs.get(following, {}) if following is not None else {}
    return weights is not None and any(apart(tensor, weights) == 0 for tensor in given.values())
