"""LossTerms: how many terms of the loss carry gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pytest_traincheck.golden.model import Invariant, Scope
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels

SUBJECT = "torch.autograd.backward"
COARSE, FINE = "loss.terms", "loss.terms.fine"


class LossTerms:
    """The loss that a backward pass starts from is a sum of at least so many terms that carry gradients. A term that
    was detached is still in the number, and in nothing else.

    Golden counts sums of single numbers; the candidate is counted also through means and sums over elements, so that
    `(a + b).mean()` in place of `a.mean() + b.mean()` is no change.
    """

    name = "LossTerms"

    def layer(self, claim: Mapping[str, Any]) -> int:
        return 1

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            counts = process.events["value"][process.measures(COARSE)].astype(np.int64)
            for least in sorted({int(count) for count in counts if count > 1}, reverse=True):
                yield Hypothesis(self.name, SUBJECT, {"at_least": least}, scope=Scope.PINNED, family="terms")

    def examples(self, claim: Mapping[str, Any], run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: Mapping[str, Any], subject: str, when: str) -> str:
        return f"The loss is a sum of at least {claim['at_least']} terms that carry gradients{when}."

    def finding(self, invariant: Invariant, run: Run, examples: Examples, broken: Ints) -> Finding:
        least = invariant.claim["at_least"]
        seen = examples.observed[int(broken[0])] if examples.observed is not None else "fewer"
        return Finding(
            f"In golden the loss was a sum of at least {least} terms that carry gradients; in the candidate {seen} "
            f"{'does' if seen == '1' else 'do'}: a term is detached or gone.",
            f"at least {least} terms",
            seen,
        )


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")


def _examples(process: Process, position: int, claim: Mapping[str, Any]) -> Examples:
    coarse, rows = process.measures(COARSE), process.measures(FINE)
    if not len(rows):
        return EMPTY
    counts = np.maximum(process.events["value"][coarse], process.events["value"][rows]).astype(np.int64)
    # Which backward pass this is within its step: a generator and a discriminator have losses of their own.
    parents = process.parent_row[rows]
    begins = np.searchsorted(process.window[parents], process.window[parents], side="left")
    number = np.arange(len(rows)) - begins
    return Examples(
        np.asarray(counts >= claim["at_least"]),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {
            "rank": rank_label(process, len(rows)),
            "time": Labels.of(
                number, [f"{_ordinal(count + 1)} backward pass of a step" for count in range(int(number.max()) + 1)]
            ),
        },
        Labels.of(np.minimum(counts, 99), [str(count) for count in range(100)]),
    )
