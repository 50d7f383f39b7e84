"""Carried: whether an optimizer takes each step with the state that the step before has left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.meaning import Meaning, Place
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels

LEFT, HELD = "optimizer.left", "optimizer.held"


@dataclass(frozen=True)
class StateIsKept(Claim):
    """An optimizer, by its label, keeps its state from step to step."""

    optimizer: str


class Carried:
    """Before a step an optimizer holds state (momentum, moments, step counts) for no fewer parameters than its step
    before has left it with. One that keeps no state carries none.
    """

    name = "Carried"
    claims: ClassVar[tuple[type[Claim], ...]] = (StateIsKept,)

    def layer(self, claim: StateIsKept) -> int:
        return 1

    def meaning(self, rule: Invariant[StateIsKept]) -> Meaning:
        return Meaning(Place.RESUMED)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            for number in np.unique(process.events["opt"][process.measures(HELD)]).tolist():
                claim = StateIsKept(process.names.optimizers[number])
                yield Hypothesis(self.name, f"{process.optimizer_class[number]}.state", claim, scope=Scope.PINNED)

    def examples(self, claim: StateIsKept, run: Run) -> Examples:
        return Examples.concatenate(
            [
                _examples(process, position, number)
                for position, process in enumerate(run.processes)
                for number, name in enumerate(process.names.optimizers)
                if name == claim.optimizer
            ]
        )

    def sentence(self, claim: StateIsKept, subject: str, when: str) -> str:
        return f"`{claim.optimizer}` keeps its state (momentum, moments, step counts) from step to step{when}."

    def finding(self, invariant: Invariant[StateIsKept], run: Run, examples: Examples, broken: Ints) -> Finding:
        seen = examples.observed[int(broken[0])] if examples.observed is not None else "?"
        return Finding(
            f"In the golden run `{invariant.claim.optimizer}` kept its state (momentum, moments, step counts) from "
            f"step to step; in the candidate it takes a step {seen}: before that step the state was cleared or "
            "replaced, or the optimizer was made again.",
            "each step with the state of the step before",
            seen,
        )


def _examples(process: Process, position: int, optimizer: int) -> Examples:
    """One example for each step of an optimizer that comes after one which has left state."""
    events = process.events
    left, rows = (
        found[events["opt"][found] == optimizer] for found in (process.measures(LEFT), process.measures(HELD))
    )
    before = np.searchsorted(left, rows) - 1
    rows, before = rows[before >= 0], before[before >= 0]
    was, now = events["value"][left[before]].astype(np.int64), events["value"][rows].astype(np.int64)
    rows, was, now = rows[was > 0], was[was > 0], now[was > 0]
    if not len(rows):
        return EMPTY
    pairs, codes = np.unique(np.stack([was, now], axis=1), axis=0, return_inverse=True)
    return Examples(
        np.asarray(now >= was),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"rank": rank_label(process, len(rows))},
        Labels.of(codes.reshape(-1), [_with(*pair) for pair in pairs.tolist()]),
    )


def _with(was: int, now: int) -> str:
    if now >= was:
        return "with the state of the step before"
    return f"without the state of {was - now} of {was} parameters" if now else "without any state"
