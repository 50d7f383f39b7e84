"""Drift: what is written to although no optimizer holds it comes back to where it was, up to rounding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, listed, variable_names
from pytest_traincheck.relations.context import rank_label, variable_context
from pytest_traincheck.relations.meaning import Deviation, Meaning, Place, Words
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels
from pytest_traincheck.trace.variables import Variables

SUBJECT = "torch.nn.Parameter"
MEASURE = "parameter.drift"
ROUNDING, FAR = 1e-4, 1e-2
"""How far from where they began, relative to their norm, parameters are in golden at most, and how far is too far:
single precision leaves 1e-7 of a sum that is taken off again, and half precision more than 1e-4.
"""


@dataclass(frozen=True)
class ComesBack(Claim):
    """Parameters of a model, by its name, that no optimizer holds stay where they began, up to rounding."""

    root: str


class Drift:
    """Parameters that no optimizer holds are, at each step, what they were at the first step of which that is so, up
    to rounding: adapters that are merged for an evaluation are taken out again, weights that were lent to an average
    are given back.

    Whether they change at all between two steps is said by `Moves`; here it is how far. An average, which moves for
    good, has no such rule.
    """

    name = "Drift"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (ComesBack,)

    def layer(self, claim: ComesBack) -> int:
        return 4

    def meaning(self, rule: Invariant[ComesBack]) -> Meaning:
        return Meaning(Place.COPY, between_steps=True, words=Words(parts=("merge", "unmerge", "restore", "swap")))

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            rows, roots = _measured(process)
            for root, mine in sorted(roots.groups(np.arange(len(rows))).items()):
                if float(process.events["value"][rows[mine]].max()) <= ROUNDING:
                    yield Hypothesis(self.name, SUBJECT, ComesBack(root), scope=Scope.PINNED)

    def examples(self, claim: ComesBack, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: ComesBack, subject: str, when: str) -> str:
        whose = f"`{claim.root}` that no optimizer holds"
        return f"Parameters of {whose} are written to and come back to where they were, up to rounding{when}."

    def finding(self, invariant: Invariant[ComesBack], run: Run, examples: Examples, broken: Ints) -> Finding:
        names = listed(variable_names(run, examples, broken))
        seen = examples.observed[int(broken[-1])] if examples.observed is not None else "far"
        return Finding(
            f"In the golden run {names}, which no optimizer holds, came back to their values, up to rounding, whenever "
            f"they were changed in place; in the candidate they are {seen} away in the end: what is merged or added is "
            "not taken out again.",
            "changed in place and restored up to rounding",
            f"changed for good: {seen} of the norm",
            deviation=Deviation.EXTRA,
        )


def _measured(process: Process) -> tuple[Ints, Labels]:
    """Rows of the measures, and the model of each."""
    rows = process.measures(MEASURE)
    roots = Variables.of(process).root[process.events["args"][rows]]
    return rows, Labels.of(roots, process.names.roots)


def _examples(process: Process, position: int, claim: ComesBack) -> Examples:
    rows, roots = _measured(process)
    rows = rows[roots.isin([claim.root])]
    if not len(rows):
        return EMPTY
    values = process.events["value"][rows]
    variable = process.events["args"][rows].astype(np.int64)
    context = variable_context(process, variable)
    return Examples(
        np.asarray(values <= FAR),
        np.full(len(rows), position),
        rows,
        variable,
        {"child": context["child"], "rank": rank_label(process, len(rows))},
        Labels.of(np.arange(len(rows)), [f"{100 * value:.2g} %" for value in values.tolist()]),
    )
