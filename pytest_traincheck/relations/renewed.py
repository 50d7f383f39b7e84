"""Renewed: what a model is given is drawn anew for every training step, and not in part the same as a step before; or
all of it is the same in every step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_traincheck.looks import RENEWAL, Looks
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

STAYED = "stayed."
"""The same for whether all of a tensor is the same."""

HALF, QUARTER = 0.5, 0.25
"""More than half may never be the same; a rule is made where golden's first run stays below a quarter."""


@dataclass(frozen=True)
class InputIsNew(Claim):
    """An input of a model, by its path among the arguments, is mostly new in each step."""

    input: str


@dataclass(frozen=True)
class InputStays(Claim):
    """An input of a model, by its path among the arguments, is the same in each step."""

    stays: str


class Renewed:
    """Of a tensor that a model is given, less than half is, place by place, what it was one training step before; or
    all of it is, in every step: a graph, positions, a full batch.

    Batches may all differ (`Distinct`) and yet be made of the same examples for the most part. The tensor is known by
    the name that the model has for it, and not by the model, which may be put into another.
    """

    name = "Renewed"
    looks: ClassVar[Looks] = frozenset({RENEWAL})
    claims: ClassVar[tuple[type[Claim], ...]] = (InputIsNew, InputStays)

    def layer(self, claim: InputIsNew | InputStays) -> int:
        return 1

    def meaning(self, rule: Invariant[InputIsNew | InputStays]) -> Meaning:
        return Meaning(Place.DATA)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            for path, rows in _rows(process, STAYED).items():
                if process.events["value"][rows].all():
                    yield Hypothesis(self.name, SUBJECT, InputStays(path), scope=Scope.PINNED)
            for path, rows in _rows(process, KEPT).items():
                shares = process.events["value"][rows]
                if len(shares) and float(shares.max()) <= QUARTER:
                    yield Hypothesis(self.name, SUBJECT, InputIsNew(path), scope=Scope.PINNED)

    def examples(self, claim: InputIsNew | InputStays, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: InputIsNew | InputStays, subject: str, when: str) -> str:
        if isinstance(claim, InputStays):
            return f"The input {argument(claim.stays)} of a model is the same in every training step{when}."
        return f"Most of the input {argument(claim.input)} of a model changes from one training step to the next{when}."

    def finding(
        self, invariant: Invariant[InputIsNew | InputStays], run: Run, examples: Examples, broken: Ints
    ) -> Finding:
        claim = invariant.claim
        if isinstance(claim, InputStays):
            return Finding(
                f"In the golden run the input {argument(claim.stays)} of the model was the same in every training "
                "step; in the candidate it has other values than a step before: what it is made of is written to in "
                "place, or it is drawn or chosen again.",
                "the same in every step",
                "other values than a step before",
            )
        seen = examples.observed[int(broken[0])] if examples.observed is not None else "most of it"
        return Finding(
            f"In the golden run most of the input {argument(claim.input)} of the model was new in every training "
            f"step; in the candidate {seen} is the same as a step before: the same examples are used again.",
            "mostly new in every step",
            f"{seen} the same as a step before",
        )


def _rows(process: Process, prefix: str) -> dict[str, Ints]:
    """Path of an input, as the golden calls it -> the rows of its measures."""
    found: dict[str, list[int]] = {}
    for name in sorted({str(symbol.get("name", "")) for symbol in process.raw.symbols["measure"]}):
        if name.startswith(prefix):
            for row in process.measures(name).tolist():
                model = process.names.modules[int(process.events["mod"][row])]
                found.setdefault(process.input_path(model, name.removeprefix(prefix)), []).append(row)
    return {path: np.array(sorted(rows), dtype=np.int64) for path, rows in found.items()}


def _examples(process: Process, position: int, claim: InputIsNew | InputStays) -> Examples:
    stays = isinstance(claim, InputStays)
    prefix, path = (STAYED, claim.stays) if isinstance(claim, InputStays) else (KEPT, claim.input)
    rows = process.memo(f"inputs {prefix}", lambda: _rows(process, prefix)).get(path)
    if rows is None:
        return EMPTY
    shares = process.events["value"][rows]
    texts = [f"{100 * share:.0f} % of it" for share in shares.tolist()]
    return Examples(
        np.asarray(shares == 1 if stays else shares <= HALF),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"rank": rank_label(process, len(rows))},
        Labels.of(np.arange(len(texts)), texts),
    )
