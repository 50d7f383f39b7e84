"""How sure one can be of a share that was counted."""

from __future__ import annotations

from math import comb

CONFIDENCE = 0.95


def at_most(failed: int, tried: int) -> float:
    """The largest share of failures that is still compatible with `failed` of `tried`, with a confidence of 95 %.

    The one-sided bound of Clopper and Pearson (Biometrika 26, 1934). Where nothing failed it is the rule of three:
    about `3 / tried`.
    """
    if tried == 0 or failed >= tried:
        return 1.0
    low, high = failed / tried, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _no_more_than(failed, tried, middle) > 1 - CONFIDENCE:
            low = middle
        else:
            high = middle
    return round(high, 4)


def _no_more_than(failed: int, tried: int, share: float) -> float:
    """The probability of at most `failed` failures in `tried` attempts that fail with the probability `share`."""
    return sum(comb(tried, count) * share**count * (1 - share) ** (tried - count) for count in range(failed + 1))
