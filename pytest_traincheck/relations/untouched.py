"""Untouched: what a data set holds is what it was, however many batches have been made of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_traincheck.looks import DATA_SETS, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, all_of, listed
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.meaning import Change, Deviation, Meaning, Place, Words
from pytest_traincheck.relations.workers import Worker, first_batch, workers_of
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels

SUBJECT = "torch.utils.data.Dataset"
STORED = "stored."
"""Prefix of the measures; the class of what holds the data follows, and the attribute under which."""


@dataclass(frozen=True)
class DataIsKept(Claim):
    """What data sets hold stays as it is; with `attribute`, what is held under that one."""

    attribute: str = ""


class Untouched:
    """The tensors, arrays and lists of numbers that a data set holds have the values at each look that they had at the
    look before, in the process that trains and in the workers of a DataLoader.

    A cache that fills, an attribute that is new, and an array of another shape are no writes. Where golden itself
    writes into some of its data, as one that draws negatives for each epoch, the rest has a rule for each attribute.
    """

    name = "Untouched"
    looks: ClassVar[Looks] = frozenset({DATA_SETS})
    claims: ClassVar[tuple[type[Claim], ...]] = (DataIsKept,)

    def layer(self, claim: DataIsKept) -> int:
        return 1

    def meaning(self, rule: Invariant[DataIsKept]) -> Meaning:
        _, _, attribute = rule.claim.attribute.rpartition(".")
        words = Words(parts=("dataset", "transform", "augment"), words=(attribute,) if attribute else ())
        return Meaning(Place.DATA, brings=frozenset({Change.VALUES}), order=-1, words=words)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        names = sorted({name for process in (*run.processes, *run.workers) for name in _attributes(process)})
        if not names:
            return
        every = Hypothesis(self.name, SUBJECT, DataIsKept(), scope=Scope.PINNED)
        yield every
        for name in names:
            yield Hypothesis(self.name, SUBJECT, DataIsKept(name), scope=Scope.PINNED, implied_by=every.key)

    def examples(self, claim: DataIsKept, run: Run) -> Examples:
        parts = [_examples(process, position, claim) for position, process in enumerate(run.processes)]
        for position, process in enumerate(run.processes):
            mine = [worker for worker in workers_of(run) if worker.parent == position]
            begun = [
                number for number, worker in enumerate(mine) if worker.row >= 0 and _is_judged(process, worker.row)
            ]
            # Of the others, those that started behind these have not begun yet.
            at_work = mine[: begun[-1] + 1] if begun else mine if process.raw.stretch is not None else []
            parts += [_of_worker(worker, process, claim) for worker in at_work]
        return Examples.concatenate(parts)

    def sentence(self, claim: DataIsKept, subject: str, when: str) -> str:
        what = f"What a data set holds as `{claim.attribute}`" if claim.attribute else "What data sets hold"
        return f"{what} is not written to while batches are made of it{when}."

    def finding(self, invariant: Invariant[DataIsKept], run: Run, examples: Examples, broken: Ints) -> Finding:
        seen = {examples.observed[position] for position in broken.tolist()} if examples.observed is not None else set()
        names = sorted(seen)
        return Finding(
            f"In the golden run the data set kept its values; in the candidate {listed(names)} changed while batches "
            "were made of it: something is written into the stored data in place, and every later epoch gets that.",
            "the data set keeps its values",
            f"written to in place: {listed(names)}",
            value=all_of(names),
            deviation=Deviation.EXTRA,
        )


def _attributes(process: Process) -> list[str]:
    names = {str(symbol.get("name", "")) for symbol in process.raw.symbols["measure"]}
    return sorted(name.removeprefix(STORED) for name in names if name.startswith(STORED))


def _shares(process: Process, claim: DataIsKept) -> tuple[Ints, list[str]]:
    """Rows of the looks at what the claim is about, in order, and the attribute of each."""
    names = [claim.attribute] if claim.attribute else _attributes(process)
    found = [(int(row), name) for name in names for row in process.measures(f"{STORED}{name}")]
    found.sort()
    return np.array([row for row, _ in found], dtype=np.int64), [name for _, name in found]


def _examples(process: Process, position: int, claim: DataIsKept) -> Examples:
    rows, names = _shares(process, claim)
    if not len(rows):
        return EMPTY
    return Examples(
        np.asarray(process.events["value"][rows] == 0),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"rank": rank_label(process, len(rows))},
        Labels.of(np.arange(len(names)), names),
    )


def _is_judged(process: Process, row: int) -> bool:
    return bool(process.judged(np.array([row]))[0])


def _of_worker(worker: Worker, parent: Process, claim: DataIsKept) -> Examples:
    """The looks of a worker, where it begins: nobody knows when it made what. One that began before the steps that are
    judged may have looked in these.
    """
    rows, names = _shares(worker.process, claim)
    if not len(rows):
        return EMPTY
    begin = worker.row
    if begin < 0 or not _is_judged(parent, begin):
        batches = parent.rows_of_type("data")
        judged = batches[parent.judged(batches)]
        begin = int(judged[0]) if len(judged) else first_batch(parent)
    return Examples(
        np.asarray(worker.process.events["value"][rows] == 0),
        np.full(len(rows), worker.parent),
        np.full(len(rows), begin),
        np.zeros(len(rows), dtype=np.int64),
        {"rank": rank_label(parent, len(rows))},
        Labels.of(np.arange(len(names)), names),
    )
