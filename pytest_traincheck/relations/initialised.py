"""Initialised: how often the initializers of `torch.nn.init` run over a parameter before training."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, listed, variable_names
from pytest_traincheck.relations.claims import Natural
from pytest_traincheck.relations.context import variable_context
from pytest_traincheck.relations.meaning import Deviation, Excuse, Meaning, Place
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels
from pytest_traincheck.trace.variables import Variables

SUBJECT = "torch.nn.init"
MEASURE = "parameter.initialised"


@dataclass(frozen=True)
class InitialisedAtMost(Claim):
    """No parameter of a model is initialised more often."""

    root: str
    at_most: Natural


class Initialised:
    """No parameter of a model is initialised more often than golden ever initialised one. An initialisation that runs
    again and again costs time, draws other random numbers and overwrites what special initialisation was done before.
    """

    name = "Initialised"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (InitialisedAtMost,)

    def layer(self, claim: InitialisedAtMost) -> int:
        return 2  # a new parameter is initialised anew: which one an optimizer holds says more

    def meaning(self, rule: Invariant[InitialisedAtMost]) -> Meaning:
        # An initialisation may take another way to the same numbers.
        return Meaning(Place.INITIAL, at_beginning=True, excuse=Excuse.INITIAL_VALUES)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            rows, roots = _counts(process)
            values = process.events["value"][rows].astype(np.int64)
            for root, mine in roots.groups(np.arange(len(rows))).items():
                most = int(values[mine].max())
                if most:
                    yield Hypothesis(self.name, SUBJECT, InitialisedAtMost(root, most), scope=Scope.PINNED)

    def examples(self, claim: InitialisedAtMost, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: InitialisedAtMost, subject: str, when: str) -> str:
        return f"No parameter of `{claim.root}` is initialised more than {_times(claim.at_most)}{when}."

    def finding(self, invariant: Invariant[InitialisedAtMost], run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        names = listed(variable_names(run, examples, broken))
        seen = examples.observed[int(broken[0])] if examples.observed is not None else "more often"
        return Finding(
            f"In the golden run no parameter of `{claim.root}` was initialised more than "
            f"{_times(claim.at_most)}; in the candidate `torch.nn.init` initialises {names} {seen}.",
            f"initialised {_times(claim.at_most)} at most",
            f"initialised {seen}",
            deviation=Deviation.TOO_OFTEN,
        )


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _counts(process: Process) -> tuple[Ints, Labels]:
    """Rows of the counts, and the root of each."""
    rows = process.measures(MEASURE)
    roots = Variables.of(process).root[process.events["args"][rows]]
    return rows, Labels.of(roots, process.names.roots)


def _examples(process: Process, position: int, claim: InitialisedAtMost) -> Examples:
    rows, roots = _counts(process)
    rows = rows[roots.isin([claim.root])]
    if not len(rows):
        return EMPTY
    counts = process.events["value"][rows].astype(np.int64)
    variable = process.events["args"][rows].astype(np.int64)
    context = variable_context(process, variable)
    return Examples(
        np.asarray(counts <= claim.at_most),
        np.full(len(rows), position),
        rows,
        variable,
        {"child": context["child"]},
        Labels.of(np.arange(len(rows)), [_times(int(count)) for count in counts]),
    )
