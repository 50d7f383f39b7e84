"""Intervals that a number of another seed lies in, learned from few golden runs. Pure functions of arrays.

Every number is looked at on a scale on which chance adds: the logarithm for sizes, the number itself for means.
With k golden runs and n names, x[j, i] on that scale:

    center_i = mean_j x[j, i]
    s_i      = sample standard deviation over the runs, k - 1 degrees of freedom
    S        = 95 % quantile over the names of s_i / unit_i
    width_i  = max(floor_i, multiple(k) * max(s_i, S * unit_i))
    interval = center_i - width_i ... center_i + width_i

`unit_i` is 1, or 1/sqrt(elements) for statistics of random elements, whose spread shrinks so. A single s_i of three
runs says little: it is less than a tenth of the true spread once in a hundred times, and among hundreds of names some
always are. S carries what the other names know. `multiple(k)` is the two-sided 99 % point of Student's t with
k - 1 degrees of freedom times sqrt(1 + 1/k) (the prediction interval for one further value, as in any textbook), and
at least 8. So one number alone, however wildly it scatters, and hundreds of numbers that all move together, are
outside in less than 1 % of the runs; where the spread is below a third of the floor, practically never, and hundreds of
numbers that scatter by themselves neither. The price is that the width is 11.5 spreads with three golden runs, 8 from
four runs on, and 78 with two, which then find gross changes only.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

STUDENT = (63.66, 9.925, 5.841, 4.604, 4.032)
"""99.5 % points of Student's t with 1, 2, 3, ... degrees of freedom."""

LEAST_MULTIPLE = 8.0

SHARED_QUANTILE = 0.95
"""Of the spreads, for what names have in common: simulated pipelines with spreads that differ by a factor of 3 (one
standard deviation) between names stay quiet with it, and do not with their root mean square or their median.
"""


def multiple(runs: int) -> float:
    """How many spreads wide an interval is to each side, for `runs` >= 2 golden runs."""
    point = STUDENT[min(runs - 1, len(STUDENT)) - 1]
    return max(float(np.sqrt(1 + 1 / runs)) * point, LEAST_MULTIPLE)


def intervals(values: Floats, spreads: Floats, floor: Floats, unit: Floats) -> tuple[Floats, Floats]:
    """Lower and upper ends, shape (names,).

    Args:
        values: on the scale where chance adds, shape (runs, names), at least two runs.
        spreads: standard deviation of each name, shape (names,).
        floor: least half width, shape (names,).
        unit: how much a name scatters compared with others, shape (names,), positive.
    """
    center = values.mean(axis=0)
    shared = float(np.quantile(spreads / unit, SHARED_QUANTILE)) if len(spreads) else 0.0
    width = np.maximum(floor, multiple(len(values)) * np.maximum(spreads, shared * unit))
    return center - width, center + width


def reach_of_few(elements: Floats) -> Floats:
    """How far from its middle, as a logarithm, chance may take the norm of a few random elements.

    Of n elements from a normal distribution the logarithm of the norm has a standard deviation of about 0.7/sqrt(n)
    (less for a uniform one), and for few elements a long tail towards zero, like that of a chi distribution. This is
    seven standard deviations, and twelve over n for the tail: the norm of a single element may be next to nothing.
    """
    return np.asarray(5 / np.sqrt(elements) + 12 / elements, dtype=np.float64)


def trimmed_mean(values: Floats) -> float:
    """Mean without the lowest and the highest third: a few names that went astray do not speak for all."""
    cut = len(values) // 3
    return float(np.sort(values)[cut : len(values) - cut].mean())
