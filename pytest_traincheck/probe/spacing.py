"""Which elements stand for a tensor that is too large to look at whole."""

from __future__ import annotations

import math


def stride(count: int, most: int) -> int:
    """The smallest step by which at most `most` of `count` elements are taken, and all columns of a matrix in turn.

    A step that shares a divisor with the length of a row takes the same few columns of every row, and those may be
    padding, or belong to a unit that is never active.
    """
    found = max(-(-count // most), 1)
    while math.gcd(found, count) > 1:
        found += 1
    return found
