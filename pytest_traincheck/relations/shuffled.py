"""Shuffled: whether the examples that a model is trained on are drawn in random order, and anew for each epoch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.distinct import before_training, training_batches
from pytest_traincheck.relations.meaning import Change, Meaning, Place
from pytest_traincheck.relations.order_again import EPOCH, drawn_for
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Bools, Ints

SUBJECT = "torch.utils.data.DataLoader"
SAMPLER = "torch.utils.data.distributed.DistributedSampler.set_epoch"
MEASURE = "batch.shuffled"
_CALLED = 1
"""The hash of a measure `batch.epoch` where `set_epoch` had been called."""


@dataclass(frozen=True)
class RandomOrder(Claim):
    """Batches of training are drawn in random order."""

    of: Literal["training"] = field(default="training", init=False)


@dataclass(frozen=True)
class AnewForEachEpoch(Claim):
    """A sampler that draws by the number of an epoch is given that of each."""

    of: Literal["epochs"] = field(default="epochs", init=False)


class Shuffled:
    """In each training step some batch comes from a sampler that draws in random order. With one epoch, or a few steps,
    all batches of a loader that was left unshuffled are still different ones.

    What was loaded for a step cannot be told from what is only kept: batches of evaluation that a list is filled with
    before training begins come in order, as they should. A shuffle is lost where nothing random is left.

    A `DistributedSampler` draws by the number of an epoch, and nothing but `set_epoch` gives it another one. That is to
    be called before training begins where golden calls it, and to give another number for the third iteration over the
    data at the latest: a training may rightly go through one epoch twice.
    """

    name = "Shuffled"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (RandomOrder, AnewForEachEpoch)

    def layer(self, claim: RandomOrder | AnewForEachEpoch) -> int:
        return 1

    def meaning(self, rule: Invariant[RandomOrder | AnewForEachEpoch]) -> Meaning:
        brings = {Change.ORDER} if isinstance(rule.claim, AnewForEachEpoch) else set()
        return Meaning(Place.DATA, brings=frozenset(brings))

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        if any(len(_rows(process)) for process in run.processes):
            yield Hypothesis(self.name, SUBJECT, RandomOrder(), scope=Scope.PINNED)
        if any(len(process.measures(EPOCH)) for process in run.processes):
            yield Hypothesis(self.name, SAMPLER, AnewForEachEpoch(), scope=Scope.PINNED)

    def examples(self, claim: RandomOrder | AnewForEachEpoch, run: Run) -> Examples:
        of = _of_epochs if isinstance(claim, AnewForEachEpoch) else _of_steps
        return Examples.concatenate([of(process, number) for number, process in enumerate(run.processes)])

    def sentence(self, claim: RandomOrder | AnewForEachEpoch, subject: str, when: str) -> str:
        if isinstance(claim, AnewForEachEpoch):
            return f"`set_epoch` gives the sampler of the training data the number of each epoch{when}."
        return f"The batches of training are drawn in random order{when}."

    def finding(
        self, invariant: Invariant[RandomOrder | AnewForEachEpoch], run: Run, examples: Examples, broken: Ints
    ) -> Finding:
        if isinstance(invariant.claim, AnewForEachEpoch):
            row = int(examples.row[broken[0]])
            return _not_anew(run.processes[int(examples.process[broken[0]])], row)
        return Finding(
            "In the golden run the batches of training were drawn in random order; in the candidate they come in the "
            "order of the dataset (see `shuffle` and `sampler` of the DataLoader).",
            "drawn in random order",
            "in the order of the dataset",
        )


def _not_anew(process: Process, row: int) -> Finding:
    golden = "In the golden run `set_epoch` gave the sampler of the training data the number of each epoch"
    if not _called(process, np.array([row])).all():
        return Finding(
            f"{golden}; in the candidate it is not called before training begins: the sampler draws the same order in "
            "every epoch.",
            "called before training begins",
            "not called",
        )
    number = int(process.events["value"][row])
    return Finding(
        f"{golden}; in the candidate its number is still {number} in the third iteration over the data: the sampler "
        "has drawn the same order each time.",
        "another number for each epoch",
        f"{number} for three iterations over the data",
    )


def _called(process: Process, rows: Ints) -> Bools:
    """At which iterations over data `set_epoch` had been called."""
    return np.asarray(process.events["digest"][rows] == _CALLED)


def _of_epochs(process: Process, position: int) -> Examples:
    """One example for each iteration of training over data that are drawn by the number of an epoch."""
    rows, stale = drawn_for(process, training_batches(process))
    return Examples(
        _called(process, rows) & ~stale,
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"rank": rank_label(process, len(rows))},
    )


def _rows(process: Process) -> Ints:
    rows = process.measures(MEASURE)
    return rows[before_training(process, rows)] if len(rows) else rows


def _of_steps(process: Process, position: int) -> Examples:
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
