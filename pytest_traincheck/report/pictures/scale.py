"""From numbers to places on a page, and back to the few numbers that stand at an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """From `low` at `begin` to `high` at `end`, evenly, or by their logarithms."""

    low: float
    high: float
    begin: float
    end: float
    by_logarithm: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = self.low, self.high, value
        if self.by_logarithm:
            low, high, at = math.log10(low), math.log10(high), math.log10(max(value, self.low))
        return self.begin + (self.end - self.begin) * (at - low) / (high - low or 1.0)

    def ticks(self) -> list[float]:
        """Two to six round numbers on the axis."""
        if self.by_logarithm:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            stride = max(1, math.ceil((last - first) / 4))
            return [10.0**power for power in range(first, last + 1, stride)]
        size = _round((self.high - self.low) / 5)
        first = math.ceil(self.low / size - 1e-9)
        return [place * size for place in range(first, math.floor(self.high / size + 1e-9) + 1)]


def linear(values: Sequence[float], begin: float, end: float) -> Scale:
    """A scale that holds all values, with some air around them."""
    low, high = min(values), max(values)
    is_flat = high - low <= 1e-9 * max(abs(low), abs(high))
    air = (abs(high) * 0.5 or 1.0) if is_flat else (high - low) * 0.06
    # What is never negative needs no axis below zero.
    return Scale(max(low - air, 0.0) if low >= 0 else low - air, high + air, begin, end)


def logarithmic(values: Sequence[float], begin: float, end: float) -> Scale:
    """A scale of positive values by their logarithms."""
    return Scale(min(values) / 1.3, max(values) * 1.3, begin, end, by_logarithm=True)


def _round(size: float) -> float:
    """The nearest of 1, 2 and 5 times a power of ten that is no smaller."""
    power = 10.0 ** math.floor(math.log10(size))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= size * (1 - 1e-9))


def short(value: float) -> str:
    """A number in four digits at most."""
    if not math.isfinite(value):
        return "not finite"
    found = format(value, ".4g")
    return format(value, ".3g") if "e" in found else found


def tick_text(step: int) -> str:
    """A step at an axis; the first is called what it is."""
    return "step 0" if step == 0 else str(step)
