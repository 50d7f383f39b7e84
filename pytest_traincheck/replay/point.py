"""What a comparison of two training steps is made of."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_traincheck.replay.computed import Call


@dataclass(frozen=True)
class Point:
    """One place of a step where both sides can be compared.

    `what` is `initial`, `batch`, `together`, `told`, `loss`, `gradient`, `step` or `variable`; `names` are those that
    deviate, worst first.
    """

    what: str
    golden: Call
    candidate: Call
    off: float
    allowed: float
    names: tuple[str, ...] = ()
    beside: str = ""
    """Of a batch: the part of it that is golden's; empty where none says which examples it holds."""
    factor: float | None = None
    """Of an update: what all that moved moved by, in golden's moves; `None` where they are not parallel."""

    @property
    def holds(self) -> bool:
        return self.off <= self.allowed
