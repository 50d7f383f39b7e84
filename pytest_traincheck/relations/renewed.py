"""Renewed: what a model is given is drawn anew for every training step, and not in part the same as a step before."""

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
from pytest_traincheck.trace.slots import argument

SUBJECT = "torch.utils.data.DataLoader"
KEPT = "kept."
"""Prefix of the measures; the path of the tensor among the arguments follows."""

HALF, QUARTER = 0.5, 0.25
"""More than half may never be the same; a rule is made where golden's first run stays below a quarter."""


@dataclass(frozen=True)
class InputIsNew(Claim):
    """An input of a model, by its path among the arguments, is mostly new in each step."""

    input: str


class Renewed:
    """Of a tensor that a model is given, less than half is, place by place, what it was one training step before.

    Batches may all differ (`Distinct`) and yet be made of the same examples for the most part. The tensor is known by
    the name that the model has for it, and not by the model, which may be put into another.
    """

    name = "Renewed"
    claims: ClassVar[tuple[type[Claim], ...]] = (InputIsNew,)

    def layer(self, claim: InputIsNew) -> int:
        return 1

    def meaning(self, rule: Invariant[InputIsNew]) -> Meaning:
        return Meaning(Place.DATA)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            for path in _paths(process):
                shares = process.events["value"][process.measures(f"{KEPT}{path}")]
                if len(shares) and float(shares.max()) <= QUARTER:
                    yield Hypothesis(self.name, SUBJECT, InputIsNew(path), scope=Scope.PINNED)

    def examples(self, claim: InputIsNew, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: InputIsNew, subject: str, when: str) -> str:
        return f"Most of the input {argument(claim.input)} of a model changes from one training step to the next{when}."

    def finding(self, invariant: Invariant[InputIsNew], run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        seen = examples.observed[int(broken[0])] if examples.observed is not None else "most of it"
        return Finding(
            f"In the golden run most of the input {argument(claim.input)} of the model was new in every training "
            f"step; in the candidate {seen} is the same as a step before: the same examples are used again.",
            "mostly new in every step",
            f"{seen} the same as a step before",
        )


def _paths(process: Process) -> list[str]:
    names = {str(symbol.get("name", "")) for symbol in process.raw.symbols["measure"]}
    return sorted(name.removeprefix(KEPT) for name in names if name.startswith(KEPT))


def _examples(process: Process, position: int, claim: InputIsNew) -> Examples:
    rows = process.measures(f"{KEPT}{claim.input}")
    if not len(rows):
        return EMPTY
    shares = process.events["value"][rows]
    texts = [f"{100 * share:.0f} % of it" for share in shares.tolist()]
    return Examples(
        np.asarray(shares <= HALF),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"rank": rank_label(process, len(rows))},
        Labels.of(np.arange(len(texts)), texts),
    )
