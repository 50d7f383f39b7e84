"""Ranges: what sort of numbers a model is given as data: negative ones, ones beyond 1, whole ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.meaning import Meaning, Place, Words
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels
from pytest_traincheck.trace.stages import TRAIN

ROWS = "input.rows."
"""Prefix of the measures of how many rows an input has; the path of the tensor among the arguments follows."""

Share = Literal["none", "most"]
_SHARES: tuple[Share, ...] = ("none", "most")
Sort = Literal["negative", "above one", "below minus one", "fractional"]
_WORDS: Mapping[Sort, str] = {
    "negative": "a number below 0",
    "above one": "a number above 1",
    "below minus one": "a number below -1",
    "fractional": "a number that is not whole",
}
LEAST_ROWS = 16
"""Rows that a run must have shown: where half of all rows are of a sort, none of so many is once in 65,000 times."""
MOST = 0.5
"""Share of the rows from which on they count as being of a sort, where golden has none, and of golden's, where the
candidate has none. What lies between may be up to the data.
"""


@dataclass(frozen=True)
class RowsHold(Claim):
    """Rows of an input of a model hold a number of a sort: none of them, or at least every second one."""

    model: str
    given: str
    sort: Sort
    share: Share


class Ranges:
    """Of the rows that a model is given in training none holds a negative number, or at least every second one does;
    likewise numbers beyond 1 and -1, and such as are not whole.

    It is broken where the opposite is the case. Chance does not lead from one to the other in as many rows as are seen,
    and shares in between break nothing.
    """

    name = "Ranges"
    claims: ClassVar[tuple[type[Claim], ...]] = (RowsHold,)

    def layer(self, claim: RowsHold) -> int:
        return 1

    def meaning(self, rule: Invariant[RowsHold]) -> Meaning:
        return Meaning(Place.DATA, words=Words(words=(rule.claim.given,), parts=("normalize", "scale", "transform")))

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        places = {place for process in run.processes for place in _inputs(process)}
        for model, given in sorted(places):
            for sort in _WORDS:
                for share in _SHARES:
                    claim = RowsHold(model, given, sort, share)
                    yield Hypothesis(self.name, model, claim, Kind.BEHAVIOUR, Scope.PINNED)

    def examples(self, claim: RowsHold, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: RowsHold, subject: str, when: str) -> str:
        rows = "No row" if claim.share == "none" else "Every second row or more"
        return f"{rows} of the input `{claim.given}` of `{claim.model}` holds {_WORDS[claim.sort]}{when}."

    def finding(self, invariant: Invariant[RowsHold], run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        what = _WORDS[claim.sort]
        seen = examples.observed[int(broken[0])] if examples.observed is not None else "?"
        none = claim.share == "none"
        golden = f"no row holds {what}" if none else f"at least half of the rows hold {what}"
        return Finding(
            f"In the golden run {'no row' if none else 'at least every second row'} of the input `{claim.given}` of "
            f"`{claim.model}` held {what}; in the candidate {seen} does: it is scaled, shifted or rounded otherwise.",
            golden,
            f"{seen} holds {what}",
            value=seen,
        )


def _inputs(process: Process) -> Mapping[tuple[str, str], Ints]:
    """Model and path of the input -> rows of the trace that say how many rows it had, in training."""

    def compute() -> Mapping[tuple[str, str], Ints]:
        found: dict[tuple[str, str], Ints] = {}
        for symbol in process.raw.symbols["measure"][1:]:
            name = str(symbol.get("name", ""))
            if name.startswith(ROWS):
                rows = process.measures(name)
                rows = rows[(process.stage[rows] == TRAIN) & (process.events["mod"][rows] > 0)]
                models = process.events["mod"][rows]
                for number in np.unique(models).tolist():
                    place = process.names.modules[number], name.removeprefix(ROWS)
                    found[place] = rows[models == number]
        return found

    return process.memo("inputs with rows", compute)


def _rows(share: float) -> str:
    return "no row" if not share else "every row" if share == 1 else "every second row or more"


def _examples(process: Process, position: int, claim: RowsHold) -> Examples:
    """One example for a process: all that its first steps were given together."""
    rows = _inputs(process).get((claim.model, claim.given), np.empty(0, dtype=np.int64))
    shares = process.measures(f"input.{claim.sort}.{claim.given}")
    shares = shares[np.isin(process.events["parent"][shares], process.events["parent"][rows])]
    sizes = process.events["value"][rows]
    if len(rows) != len(shares) or sizes.sum() < LEAST_ROWS:
        return EMPTY
    share = float((process.events["value"][shares] * sizes).sum() / sizes.sum())
    if 0 < share < MOST:
        return EMPTY  # Neither: a golden run like this makes no rule, and a candidate breaks none.
    return Examples(
        np.array([(share == 0) == (claim.share == "none")]),
        np.array([position]),
        process.parent_row[rows[:1]],
        np.zeros(1, dtype=np.int64),
        {"rank": rank_label(process, 1)},
        Labels.of(np.zeros(1, dtype=np.int64), (_rows(share),)),
    )
