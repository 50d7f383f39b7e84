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
        parents = {int(process.raw.meta.get("pid", 0)): number for number, process in enumerate(run.processes)}
        for worker in run.workers:
            parent = parents.get(int(worker.raw.meta.get("ppid", 0)))
            if parent is not None:
                parts.append(_of_worker(worker, run.processes[parent], parent, claim))
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


def _of_worker(worker: Process, parent: Process, position: int, claim: DataIsKept) -> Examples:
    """The looks of a worker, at the first batch of the process that it works for: nobody knows when it made what."""
    rows, names = _shares(worker, claim)
    batches = parent.rows_of_type("data")
    if not len(rows):
        return EMPTY
    return Examples(
        np.asarray(worker.events["value"][rows] == 0),
        np.full(len(rows), position),
        np.full(len(rows), int(batches[0]) if len(batches) else 0),
        np.zeros(len(rows), dtype=np.int64),
        {"rank": rank_label(parent, len(rows))},
        Labels.of(np.arange(len(names)), names),
    )
