"""What `Band` says: its rules, and numbers that are outside, the farthest first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_traincheck.golden.numbers import Numbers
from pytest_traincheck.relations import quantities
from pytest_traincheck.relations.band_claims import PooledQuantity, QuantityOf
from pytest_traincheck.relations.base import Finding
from pytest_traincheck.relations.meaning import Deviation
from pytest_traincheck.relations.quantities import Quantity

SHOWN = 3
LARGE = 1e6
"""From here on numbers are written with an exponent."""


@dataclass(frozen=True)
class Words:
    """`rule` names a quantity of the model `{root}`; `one` begins a sentence about the number of `{name}`."""

    rule: str
    one: str
    pooled_rule: str = ""
    pooled: str = ""


QUANTITY_WORDS: Mapping[Quantity, Words] = {
    quantities.LOSS: Words("The loss of the first training step is", "{name} is"),
    quantities.INITIAL_SCALE: Words(
        "The root mean square of each parameter of `{root}` after initialisation is",
        "{name} is initialised with a root mean square of",
    ),
    quantities.INITIAL_MEAN: Words(
        "The mean of each parameter of `{root}` after initialisation, where it is more than chance around zero, is",
        "{name} is initialised with a mean of",
    ),
    quantities.INPUT: Words(
        "The root mean square of each input of `{root}` in its first training step is",
        "The input {name} has a root mean square of",
    ),
    quantities.ACTIVATION: Words(
        "The root mean square of each module's output in the first training step of `{root}` is",
        "The output of {name} has a root mean square of",
    ),
    quantities.GRADIENT: Words(
        "The norm of each parameter's gradient at the first step of `{root}` is",
        "The gradient of {name} has a norm of",
        "The scale of all gradients of `{root}` together at the first step is",
        "All gradients of `{root}` together are",
    ),
    quantities.UPDATE: Words(
        "The size of each parameter's first update in `{root}`, relative to the parameter, is",
        "The first update of {name}, relative to the parameter, is",
        "The scale of the first updates of all parameters of `{root}` together is",
        "The first updates of all parameters of `{root}` together are",
    ),
}
"""Every quantity, in the order in which numbers flow through a training step."""


@dataclass(frozen=True)
class Outside:
    """A number outside its band, with the middle of the band: what golden usually has."""

    name: str
    value: float
    low: float
    high: float

    @property
    def quoted(self) -> str:
        """The name as code, unless it is words."""
        return self.name if " " in self.name else f"`{self.name}`"

    @property
    def middle(self) -> float:
        """The geometric middle of a band of sizes, else the arithmetic one."""
        if self.low > 0 or self.high < 0:
            # Root by root: the product of the ends may be beyond all numbers.
            return math.copysign(math.sqrt(abs(self.low)) * math.sqrt(abs(self.high)), self.low)
        return (self.low + self.high) / 2 if self.low < 0 else 0.0

    @property
    def factor(self) -> float:
        """How many times larger or smaller than usual, above 1; infinite where no factor says it."""
        if not math.isfinite(self.value) or self.value * self.middle <= 0:
            return math.inf
        ratio = self.value / self.middle
        # Both may be numbers and their ratio, or its inverse, none.
        return max(ratio, 1 / ratio) if ratio and math.isfinite(1 / ratio) else math.inf

    @property
    def seen(self) -> str:
        return number(self.value) if math.isfinite(self.value) else "NaN or infinity"

    @property
    def usual(self) -> str:
        """What the golden runs have, in words."""
        if self.middle == 0:
            return "zero"
        return f"{number(self.middle)}, band {number(self.low)} to {number(self.high)}"

    @property
    def compared(self) -> str:
        """How far off, as the end of a sentence."""
        if self.middle == 0:
            return "where the golden runs have zero"
        if math.isinf(self.factor):
            return f"where the golden runs have {self.usual}"
        direction = "larger" if self.value / self.middle > 1 else "smaller"
        return f"{number(self.factor, 2)} times {direction} than in the golden runs ({self.usual})"


def describe_one(claim: QuantityOf, numbers: Numbers, found: Sequence[tuple[str, float]], step: int) -> Finding:
    """`found` are the names and values outside their bands, of one step."""
    worst: dict[str, Outside] = {}
    for name, value in found:
        at = numbers.position[name]
        item = Outside(name, value, float(numbers.low[at]), float(numbers.high[at]))
        if name not in worst or item.factor > worst[name].factor:
            worst[name] = item
    ordered = sorted(worst.values(), key=lambda item: (-item.factor, item.name))
    first = ordered[0]
    when = "" if claim.quantity in (quantities.INITIAL_SCALE, quantities.INITIAL_MEAN) else f" at step {step}"
    title = f"{QUANTITY_WORDS[claim.quantity].one.format(name=first.quoted)} {first.seen}{when}, {first.compared}"
    more = len(ordered) - 1
    if more:
        title += f"; {more} more {'is outside its band' if more == 1 else 'are outside their bands'}"
    shown = "; ".join(f"{item.quoted} {item.seen}" for item in ordered[:SHOWN])
    return Finding(
        f"{title[0].upper()}{title[1:]}.",
        "; ".join(f"{item.quoted} {item.usual}" for item in ordered[:SHOWN]),
        f"{shown} and {more + 1 - SHOWN} more" if more >= SHOWN else shown,
        variables=() if claim.quantity == quantities.LOSS else tuple(item.name for item in ordered),
        deviation=Deviation.DIFFERENT if math.isfinite(first.value) else Deviation.NOT_FINITE,
    )


def describe_pooled(claim: PooledQuantity, numbers: Numbers, at: int, factor: float, step: int) -> Finding:
    """`factor` is how large the numbers of a model are together, in golden's; `at` is where its band stands."""
    size = f"{number(factor, 2)} times as large as" if factor >= 1 else f"{number(1 / factor, 2)} times smaller than"
    what = QUANTITY_WORDS[claim.quantity].pooled.format(root=claim.root)
    what = what.replace("together", "(an average or another copy of weights) together") if _is_copy(claim) else what
    return Finding(
        f"{what} {size} in the golden runs at step {step}.",
        f"{number(float(numbers.low[at]), 2)} to {number(float(numbers.high[at]), 2)} times their usual scale",
        f"{number(factor, 2)} times the usual scale of the golden runs",
    )


def _is_copy(claim: PooledQuantity) -> bool:
    """As the probe names copies of parameters that live outside every module."""
    return claim.root.startswith("copy of ")


def number(value: float, digits: int = 3) -> str:
    """A number as a person writes it: "0.0312", "4.0", "100", "1.2e-07"."""
    text = f"{value:.{digits}g}"
    if 10**digits <= abs(float(text)) < LARGE:
        return f"{float(text):.0f}"
    return f"{value:.1f}" if digits == 2 and 1 <= abs(value) < 10 else text
