"""What `Band` claims: which numbers of a run lie within golden's band. The bands themselves are no part of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pytest_traincheck.relations.base import MeasuredClaim
from pytest_traincheck.relations.quantities import Quantity

PooledName = Literal["gradient norm", "update size"]


@dataclass(frozen=True)
class QuantityOf(MeasuredClaim):
    """A quantity of each parameter or module of a model; of what is in no model where `root` is empty."""

    quantity: Quantity
    root: str = ""


@dataclass(frozen=True)
class PooledQuantity(MeasuredClaim):
    """A quantity of all parameters of a model together."""

    quantity: PooledName
    root: str = ""
    pooled: Literal[True] = field(default=True, init=False)
