"""Learns the bands of a quantity from golden runs; `interval.py` has the statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pytest_traincheck.golden.numbers import Numbers
from pytest_traincheck.relations import quantities
from pytest_traincheck.relations.band_claims import PooledQuantity, QuantityOf
from pytest_traincheck.relations.interval import intervals, reach_of_few, trimmed_mean
from pytest_traincheck.relations.quantities import Floats, Quantity, by_name, readings_of
from pytest_traincheck.trace import Run

FLOORS: Mapping[Quantity, float] = {
    quantities.LOSS: 0.35,
    quantities.INITIAL_SCALE: 0.05,
    quantities.INPUT: 0.7,
    quantities.ACTIVATION: 0.4,
    quantities.GRADIENT: 0.7,
    quantities.UPDATE: 0.7,
}
"""Least half width of a band, as a logarithm: 0.35 is a factor of 1.4, 0.7 a factor of 2."""

POOLED_FLOOR = 0.5

FOLLOWS_THE_LOSS = 0.5
"""How far gradients together differ between runs where the loss differs, both as logarithms, at the least: what is
left to learn is in both, and of a squared difference the gradient goes with the difference, the root of the loss.
"""

CONSTANT = 0.01
"""Half width, relative, for a parameter that is filled with one constant."""

NEGLIGIBLE = 1e-4
"""Below this share of the largest number of its model in a run, a gradient, activation or update is rounding noise: the
gradient of a bias in front of a BatchNorm is zero, but not to the last bit.
"""

MOST_OF_A_LOSS = 1000.0
"""How many times the upper end of the band of a loss may be its lower end: beyond that its sign alone is left, of which
three seeds say little.
"""

LEAST_LOSSES = 8
"""Values, over all golden runs, that must have been positive before the loss counts as positive: a random sign looks so
once in 256 times.
"""

POOLED = ""
"""The name under which the band of the pooled factor stands among the numbers."""

MIN_POOLED = 3
"""Numbers that have a common scale: fewer speak for themselves."""

Scale = Callable[[Floats], Floats]
"""Takes numbers to where chance adds."""


def fit(claim: QuantityOf | PooledQuantity, runs: Sequence[Run]) -> Numbers | None:
    """The bands of a claim over the golden runs; None where nothing can be said, as after a single run."""
    if len(runs) < 2:
        return None
    by_run = [by_name([readings for _, readings in readings_of(claim.quantity, claim.root, run)]) for run in runs]
    names = sorted(set.intersection(*(set(values) for values in by_run)))
    names = [name for name in names if all(np.isfinite(values[name]).all() for values in by_run)]
    if not names:
        return None
    quantity = claim.quantity
    if quantity == quantities.INITIAL_MEAN:
        return _means(runs, claim, names, by_run)
    if quantity == quantities.INITIAL_SCALE:
        return _initial(runs, claim, names, by_run)
    return (
        _pooled(runs, claim, names, by_run) if isinstance(claim, PooledQuantity) else _sizes(runs, claim, names, by_run)
    )


def _spread(by_run: Sequence[Mapping[str, Floats]], names: Sequence[str], scale: Scale) -> tuple[Floats, Floats]:
    """Means of each run on a scale, shape (runs, names), and the spread of each name between runs and ranks."""
    values = np.array([[float(scale(run[name]).mean()) for name in names] for run in by_run])
    between = values.std(axis=0, ddof=1)
    everything = np.array([scale(np.concatenate([run[name] for run in by_run])).std(ddof=1) for name in names])
    # The last bit of a mean of equal numbers is no spread.
    equal = np.array([len(set(np.concatenate([run[name] for run in by_run]).tolist())) == 1 for name in names])
    return values, np.where(equal, 0.0, np.maximum(between, everything))


def _numbers(bands: Mapping[str, tuple[float, float]]) -> Numbers | None:
    if not bands:
        return None
    names = tuple(sorted(bands))
    return Numbers(names, np.array([bands[name][0] for name in names]), np.array([bands[name][1] for name in names]))


def _comparable(by_run: Sequence[Mapping[str, Floats]], names: Sequence[str]) -> tuple[list[str], list[str], float]:
    """Names whose numbers are sizes in every run, names that are zero in every run, and what counts as zero."""
    largest = [max(float(run[name].max()) for name in names) for run in by_run]
    sizes = [
        name
        for name in names
        if all(run[name].min() > NEGLIGIBLE * most > 0 for run, most in zip(by_run, largest, strict=True))
    ]
    zeros = [name for name in names if all((run[name] == 0).all() for run in by_run)]
    return sizes, zeros, NEGLIGIBLE * min(largest)


def _sizes(
    runs: Sequence[Run],
    claim: QuantityOf | PooledQuantity,
    names: Sequence[str],
    by_run: Sequence[Mapping[str, Floats]],
) -> Numbers | None:
    sizes, zeros, negligible = _comparable(by_run, names)
    if claim.quantity == quantities.LOSS:
        sizes = [name for name in sizes if _is_positive(runs, name)]
    if not sizes:
        return None
    values, spreads = _spread(by_run, sizes, np.log)
    if not spreads.any():
        # Runs that do not differ, as when a script fixes its seed, say nothing about other runs.
        return None
    floor, unit = np.full(len(sizes), FLOORS[claim.quantity]), np.ones(len(sizes))
    if claim.quantity in (quantities.GRADIENT, quantities.UPDATE):
        # A share of the spread, and of a small parameter most of it, is that of a few random elements.
        elements = _elements(runs, claim, sizes)
        floor = floor + reach_of_few(elements)
        unit = np.sqrt(1 + 12 / elements)
    low, high = intervals(values, spreads, floor, unit)
    bands = {name: (float(np.exp(a)), float(np.exp(b))) for name, a, b in zip(sizes, low, high, strict=True)}
    if claim.quantity == quantities.LOSS:
        bands = {name: (a, b) for name, (a, b) in bands.items() if b <= MOST_OF_A_LOSS * a}
    return _numbers({**dict.fromkeys(zeros, (0.0, negligible)), **bands})


def _is_positive(runs: Sequence[Run], name: str) -> bool:
    """Whether a loss is positive by its nature, as far as golden tells: in all steps, and not in the first alone."""
    found = [quantities.values_of_losses(process).get(name) for run in runs for process in run.processes]
    values = np.concatenate([part for part in found if part is not None])
    enough = name != quantities.TOTAL_LOSS or len(values) >= LEAST_LOSSES
    return enough and bool((values > 0).all())


def _pooled(
    runs: Sequence[Run],
    claim: QuantityOf | PooledQuantity,
    names: Sequence[str],
    by_run: Sequence[Mapping[str, Floats]],
) -> Numbers | None:
    sizes, _, _ = _comparable(by_run, names)
    if len(sizes) < MIN_POOLED:
        return None
    values = np.log([[float(run[name].mean()) for name in sizes] for run in by_run])
    center = values.mean(axis=0)
    pooled = np.array([[trimmed_mean(row - center)] for row in values])
    spread = pooled.std(axis=0, ddof=1)
    if not spread.any():
        return None
    if claim.quantity == quantities.GRADIENT:
        # Three runs whose gradients are as large by chance would make a narrow band; their losses tell that it is one.
        spread = np.maximum(spread, FOLLOWS_THE_LOSS * _spread_of_loss(runs))
    low, high = intervals(pooled, spread, np.array([POOLED_FLOOR]), np.ones(1))
    usual = {name: (float(np.exp(mean)),) * 2 for name, mean in zip(sizes, center, strict=True)}
    return _numbers({**usual, POOLED: (float(np.exp(low[0])), float(np.exp(high[0])))})


def _spread_of_loss(runs: Sequence[Run]) -> float:
    """Standard deviation of the logarithm of the first loss between runs; 0 where it is no size in some run."""
    found = [by_name([readings for _, readings in readings_of(quantities.LOSS, "", run)]) for run in runs]
    losses = np.array([float(run.get(quantities.TOTAL_LOSS, np.zeros(1)).mean()) for run in found])
    known = bool(np.isfinite(losses).all() and (losses > 0).all())
    return float(np.log(losses).std(ddof=1)) if known else 0.0


def _elements(runs: Sequence[Run], claim: QuantityOf | PooledQuantity, names: Sequence[str]) -> Floats:
    """Of how many elements the variable of each name is made, at least 1."""
    known = {
        name: count
        for _, readings in readings_of(claim.quantity, claim.root, runs[0])
        for name, count in zip(readings.names, readings.elements.tolist(), strict=True)
    }
    return np.array([max(known[name], 1) for name in names], dtype=np.float64)


def _initial(
    runs: Sequence[Run],
    claim: QuantityOf | PooledQuantity,
    names: Sequence[str],
    by_run: Sequence[Mapping[str, Floats]],
) -> Numbers | None:
    """Bands of root mean squares, which scatter as those of random elements do, and of constants."""
    constants = _constants(runs, claim, names, by_run)
    bands = {name: _around(value) for name, value in constants.items()}
    random = [name for name in names if name not in constants and all((run[name] > 0).all() for run in by_run)]
    if random:
        values, spreads = _spread(by_run, random, np.log)
        elements = _elements(runs, claim, random)
        floor = FLOORS[quantities.INITIAL_SCALE] + reach_of_few(elements)
        low, high = intervals(values, spreads, floor, 1 / np.sqrt(elements))
        bands |= {name: (float(np.exp(a)), float(np.exp(b))) for name, a, b in zip(random, low, high, strict=True)}
    return _numbers(bands)


def _means(
    runs: Sequence[Run],
    claim: QuantityOf | PooledQuantity,
    names: Sequence[str],
    by_run: Sequence[Mapping[str, Floats]],
) -> Numbers | None:
    """Bands of means that are not noise: eight times what the mean of n random elements around zero may be."""
    scale = by_name([readings for _, readings in readings_of(quantities.INITIAL_SCALE, claim.root, runs[0])])
    constants = {name: mean for name, mean in _constants(runs, claim, names, by_run).items() if mean}
    bands = {name: _around(mean) for name, mean in constants.items()}
    noise = {
        name: float(scale[name].mean() / np.sqrt(count))
        for name, count in zip(names, _elements(runs, claim, names).tolist(), strict=True)
        if name in scale and name not in constants
    }
    telling = [
        name
        for name, size in noise.items()
        if size > 0
        and all((np.abs(run[name]) > 8 * size).all() for run in by_run)
        and len({bool(value > 0) for run in by_run for value in run[name].tolist()}) == 1
    ]
    if telling:
        values, spreads = _spread(by_run, telling, np.asarray)
        unit = np.array([noise[name] for name in telling])
        floor = 0.05 * np.abs(values.mean(axis=0)) + 6 * unit
        low, high = intervals(values, spreads, floor, unit)
        bands |= {name: (float(a), float(b)) for name, a, b in zip(telling, low, high, strict=True)}
    return _numbers(bands)


def _constants(
    runs: Sequence[Run],
    claim: QuantityOf | PooledQuantity,
    names: Sequence[str],
    by_run: Sequence[Mapping[str, Floats]],
) -> dict[str, float]:
    """Parameters all of whose elements are one constant in every run: then the mean is as large as the root mean
    square. The value is that of the claim's quantity.

    A single element always looks so; that it is a constant shows in runs that initialise something else differently.
    """
    other: Quantity = (
        quantities.INITIAL_MEAN if claim.quantity == quantities.INITIAL_SCALE else quantities.INITIAL_SCALE
    )
    counterpart = [by_name([readings for _, readings in readings_of(other, claim.root, run)]) for run in runs]
    elements = dict(zip(names, _elements(runs, claim, names).tolist(), strict=True))
    varies = any(not np.array_equal(run[name], by_run[0][name]) for name in names for run in by_run)
    found = {}
    for name in names:
        value = float(by_run[0][name][0])
        same = (varies or elements[name] > 1) and all((run[name] == value).all() for run in by_run)
        if same and all(
            name in run and np.allclose(np.abs(run[name]), abs(value), rtol=1e-5, atol=0) for run in counterpart
        ):
            found[name] = value
    return found


def _around(value: float) -> tuple[float, float]:
    margin = CONSTANT * abs(value)
    return value - margin, value + margin
