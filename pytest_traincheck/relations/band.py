"""Band: numbers that mean something at once lie where other seeds put them.

Quantities are read by `quantities.py`, learned from by `band_fit.py`, and `interval.py` says how wide a band is and how
often it is wrong. A rule speaks of one quantity of one model; the bands of its parameters or modules are numbers of a
platform and lie outside the claim. Beside each parameter's own gradient there is a pooled rule about all of them
together: each may differ by a factor of two between seeds where their common scale moves by a tenth, so a loss that is
four times too large shows in the pooled rule alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from pytest_traincheck.golden.numbers import Numbers
from pytest_traincheck.looks import ACTIVATIONS, INPUT_SCALES, UPDATES, Looks
from pytest_traincheck.relations import quantities
from pytest_traincheck.relations.band_claims import PooledName, PooledQuantity, QuantityOf
from pytest_traincheck.relations.band_fit import POOLED, fit
from pytest_traincheck.relations.band_wording import QUANTITY_WORDS, describe_one, describe_pooled
from pytest_traincheck.relations.base import Examples, Finding, Hypothesis
from pytest_traincheck.relations.interval import trimmed_mean
from pytest_traincheck.relations.meaning import Excuse, Meaning, Place
from pytest_traincheck.relations.quantities import Readings, by_name, readings_of
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Run
from pytest_traincheck.trace.labels import Ints

POOLED_QUANTITIES: tuple[PooledName, ...] = (quantities.GRADIENT, quantities.UPDATE)

LARGEST = 700.0
"""Largest logarithm of a pooled factor: what is further apart has a factor beyond 64-bit numbers, or one of zero."""


class Band:
    """The loss, the scale of parameters, activations, gradients and updates are within golden's band.

    A band is silent by construction: its width comes from the differences between golden seeds, shared between the
    names of a quantity, with multiples and floors that keep the expected share of pipelines with a false alarm below
    1 % (see `interval.py`). With one golden run, or runs that do not differ, there is no spread and nothing is claimed.
    """

    name = "Band"
    looks: ClassVar[Looks] = frozenset({ACTIVATIONS, INPUT_SCALES, UPDATES})
    claims: ClassVar[tuple[type[Claim], ...]] = (QuantityOf, PooledQuantity)

    def layer(self, claim: QuantityOf | PooledQuantity) -> int:
        return 5

    def meaning(self, rule: Invariant[QuantityOf | PooledQuantity]) -> Meaning:
        quantity = rule.claim.quantity
        compared = quantity in (quantities.LOSS, quantities.ACTIVATION)
        return Meaning(
            Place.NUMBER,
            order=quantities.order_of(quantity),
            # A schedule may begin with a rate that follows from how many steps there are.
            by_length=quantity == quantities.UPDATE,
            excuse=Excuse.OWN_RESULT if compared else Excuse.NONE,
        )

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        found = {
            (quantity, process.names.roots[root])
            for process in run.processes
            for quantity in QUANTITY_WORDS
            for root in np.unique(quantities.read(process, quantity).roots).tolist()
        }
        for quantity, root in sorted(found):
            yield self._hypothesis(QuantityOf(quantity, root))
            for pooled in POOLED_QUANTITIES:
                if pooled == quantity:
                    yield self._hypothesis(PooledQuantity(pooled, root))

    def _hypothesis(self, claim: QuantityOf | PooledQuantity) -> Hypothesis:
        return Hypothesis(self.name, claim.root or "torch.nn.functional", claim, Kind.NUMERIC, Scope.PINNED)

    def fit(self, claim: QuantityOf | PooledQuantity, runs: Sequence[Run]) -> Numbers | None:
        """The bands of a quantity over the golden runs; None where nothing can be said."""
        return fit(claim, runs)

    def suits(self, claim: QuantityOf | PooledQuantity, numbers: Numbers) -> bool:
        """A pooled rule has the pooled factor beside the numbers it is made of, and no other rule has it. What is
        pooled are sizes, of which logarithms are taken, so none is zero or negative.
        """
        pooled = isinstance(claim, PooledQuantity)
        if pooled and not (numbers.low > 0).all():
            return False
        return len(numbers.names) > pooled and (POOLED in numbers.position) == pooled

    def examples(self, claim: QuantityOf | PooledQuantity, run: Run) -> Examples:
        numbers = claim.numbers
        parts = []
        for position, readings in _places(claim, run):
            at = [numbers.position[name] for name in readings.names]
            holds = (numbers.low[at] <= readings.values) & (readings.values <= numbers.high[at])
            parts.append(Examples(holds, np.full(len(readings), position), readings.rows, readings.variables))
        return Examples.concatenate(parts)

    def sentence(self, claim: QuantityOf | PooledQuantity, subject: str, when: str) -> str:
        words = QUANTITY_WORDS[claim.quantity]
        text = words.pooled_rule if isinstance(claim, PooledQuantity) else words.rule
        return text.format(root=claim.root) + f" within the band of the golden runs{when}."

    def finding(
        self, invariant: Invariant[QuantityOf | PooledQuantity], run: Run, examples: Examples, broken: Ints
    ) -> Finding:
        claim = invariant.claim
        numbers = claim.numbers
        # The same places in the same order as the examples.
        places = [
            (name, value)
            for _, readings in _places(claim, run)
            for name, value in zip(readings.names, readings.values.tolist(), strict=True)
        ]
        found = [places[number] for number in broken.tolist()]
        first = int(broken[0])
        step = run.processes[int(examples.process[first])].step_number(int(examples.row[first]))
        if isinstance(claim, PooledQuantity):
            return describe_pooled(claim, numbers, numbers.position[POOLED], found[0][1], step)
        return describe_one(claim, numbers, found, step)


def _places(claim: QuantityOf | PooledQuantity, run: Run) -> list[tuple[int, Readings]]:
    """The numbers that have a band, in each process; or the pooled factor, once a run."""
    numbers = claim.numbers
    known = [
        (position, readings.only([name in numbers.position for name in readings.names]))
        for position, readings in readings_of(claim.quantity, claim.root, run)
    ]
    known = [(position, readings) for position, readings in known if len(readings)]
    return _pooled_place(numbers, known, run) if isinstance(claim, PooledQuantity) else known


def _pooled_place(numbers: Numbers, known: Sequence[tuple[int, Readings]], run: Run) -> list[tuple[int, Readings]]:
    values = {name: float(found.mean()) for name, found in by_name([readings for _, readings in known]).items()}
    usable = [name for name, value in values.items() if value > 0 and np.isfinite(value)]
    # A model of which half is gone or renamed has no scale that could be compared.
    if 2 * len(usable) < len(numbers.names) - 1:
        return []
    usual = numbers.low[[numbers.position[name] for name in usable]]
    factor = np.exp(np.clip(trimmed_mean(np.log([values[name] for name in usable]) - np.log(usual)), -LARGEST, LARGEST))
    position, readings = known[0]
    first = int(readings.rows[0])
    # The call that made the numbers stands for them.
    row = int(run.processes[position].parent_row[first])
    none = np.zeros(1, dtype=np.int64)
    place = Readings(
        (POOLED,), np.array([factor]), np.array([row if row >= 0 else first], dtype=np.int64), none, none, none
    )
    return [(position, place)]
