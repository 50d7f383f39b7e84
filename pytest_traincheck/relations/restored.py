"""Restored: whether an optimizer takes its first step with the state of earlier steps, or with none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.meaning import Meaning, Place
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels

MEASURE = "optimizer.state"


@dataclass(frozen=True)
class BeginsWithState(Claim):
    """Whether an optimizer, by its label, takes its first step with state."""

    optimizer: str
    restored: bool


class Restored:
    """At its first step an optimizer holds state (momentum, moments, step counts) for parameters, as after a resume, or
    it holds none, as at the start of a training.
    """

    name = "Restored"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (BeginsWithState,)

    def layer(self, claim: BeginsWithState) -> int:
        return 1

    def meaning(self, rule: Invariant[BeginsWithState]) -> Meaning:
        return Meaning(Place.RESUMED, at_beginning=True)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            rows = process.measures(MEASURE)
            for row in rows.tolist():
                optimizer = process.names.optimizers[int(process.events["opt"][row])]
                claim = BeginsWithState(optimizer, bool(process.events["value"][row] > 0))
                yield Hypothesis(self.name, _subject(process, row), claim, scope=Scope.PINNED)

    def examples(self, claim: BeginsWithState, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: BeginsWithState, subject: str, when: str) -> str:
        return f"`{claim.optimizer}` takes its first step {_with(claim.restored)}{when}."

    def finding(self, invariant: Invariant[BeginsWithState], run: Run, examples: Examples, broken: Ints) -> Finding:
        restored = invariant.claim.restored
        cause = ": the state of the optimizer was not restored" if restored else ": the state comes from somewhere else"
        return Finding(
            f"In the golden run `{invariant.claim.optimizer}` took its first step {_with(restored)}; in the "
            f"candidate it takes it {_with(not restored)}{cause}.",
            _with(restored),
            _with(not restored),
        )


def begins_from_nothing(rules: Iterable[Invariant]) -> bool:
    """Whether every optimizer of golden's runs takes its first step without state, as far as a rule says how."""
    claims = [rule.claim for rule in rules if isinstance(rule.claim, BeginsWithState)]
    return bool(claims) and not any(claim.restored for claim in claims)


def _with(restored: bool) -> str:
    return "with restored state (momentum, moments, step counts)" if restored else "without any state"


def _subject(process: Process, row: int) -> str:
    return f"{process.optimizer_class[int(process.events['opt'][row])]}.load_state_dict"


def _examples(process: Process, position: int, claim: BeginsWithState) -> Examples:
    rows = process.measures(MEASURE)
    rows = rows[Labels.of(process.events["opt"][rows], process.names.optimizers).isin([claim.optimizer])]
    # One that takes the place of another carries its state on, which `Carried` looks at.
    rows = rows[:1]
    if not len(rows):
        return EMPTY
    held = process.events["value"][rows] > 0
    return Examples(
        np.asarray(held == claim.restored),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"rank": rank_label(process, len(rows))},
    )
