"""Shuffled: whether the examples that a model is trained on are drawn in random order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.distinct import before_training
from pytest_traincheck.relations.meaning import Meaning, Place
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints

SUBJECT = "torch.utils.data.DataLoader"
MEASURE = "batch.shuffled"


@dataclass(frozen=True)
class RandomOrder(Claim):
    """Batches of training are drawn in random order."""

    of: Literal["training"] = field(default="training", init=False)


class Shuffled:
    """In each training step some batch comes from a sampler that draws in random order. With one epoch, or a few steps,
    all batches of a loader that was left unshuffled are still different ones.

    What was loaded for a step cannot be told from what is only kept: batches of evaluation that a list is filled with
    before training begins come in order, as they should. A shuffle is lost where nothing random is left.
    """

    name = "Shuffled"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (RandomOrder,)

    def layer(self, claim: RandomOrder) -> int:
        return 1

    def meaning(self, rule: Invariant[RandomOrder]) -> Meaning:
        return Meaning(Place.DATA)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        if any(len(_rows(process)) for process in run.processes):
            yield Hypothesis(self.name, SUBJECT, RandomOrder(), scope=Scope.PINNED)

    def examples(self, claim: RandomOrder, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number) for number, process in enumerate(run.processes)])

    def sentence(self, claim: RandomOrder, subject: str, when: str) -> str:
        return f"The batches of training are drawn in random order{when}."

    def finding(self, invariant: Invariant[RandomOrder], run: Run, examples: Examples, broken: Ints) -> Finding:
        return Finding(
            "In the golden run the batches of training were drawn in random order; in the candidate they come in the "
            "order of the dataset (see `shuffle` and `sampler` of the DataLoader).",
            "drawn in random order",
            "in the order of the dataset",
        )


def _rows(process: Process) -> Ints:
    rows = process.measures(MEASURE)
    return rows[before_training(process, rows)] if len(rows) else rows


def _examples(process: Process, position: int) -> Examples:
    """One example for each training step with batches: its last one, behind those that are kept for later."""
    rows = _rows(process)
    if not len(rows):
        return EMPTY
    random = process.events["value"][rows] == 1
    _, first = np.unique(process.window[rows], return_index=True)
    last = np.append(first[1:], len(rows)) - 1
    return Examples(
        np.asarray(np.logical_or.reduceat(random, first), dtype=bool),
        np.full(len(last), position),
        rows[last],
        np.zeros(len(last), dtype=np.int64),
        {"rank": rank_label(process, len(last))},
    )
