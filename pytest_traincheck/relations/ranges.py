"""Ranges: what sort of numbers models are given as data, and losses as targets: negative ones, ones beyond 1, whole
ones, zeros; from where to where whole numbers go; in evaluation as in training.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import numpy as np

from pytest_traincheck.looks import NUMBER_SORTS, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.batches import (
    EXTREMES,
    SHARES,
    SORTS,
    Extreme,
    Share,
    Sort,
    answers_itself,
    batches,
    is_answered,
    is_bound,
    is_loss,
    types,
)
from pytest_traincheck.relations.claims import Items
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.meaning import Change, Evidence, Meaning, Place, Words
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels
from pytest_traincheck.trace.stages import EVAL, TRAIN

_HOLDS: Mapping[Sort, str] = {
    "negative": "a number below 0",
    "above one": "a number above 1",
    "below minus one": "a number below -1",
    "fractional": "a number that is not whole",
}
_ENDS: Mapping[Sort, str] = {"zero first": "begins", "zero last": "ends"}
_BEGAN: Mapping[Sort, str] = {"zero first": "began", "zero last": "ended"}
_OF_ALL: Mapping[Sort, tuple[str, str]] = {
    "zero": ("at most one in three numbers of {} {} 0", "at least two in three numbers of {} {} 0"),
    "off centre": ("the columns of {} {} centred at 0", "the columns of {} {} off centre, by more than they scatter"),
}
"""What is said of all numbers together, where it is of none and where it is of most."""
_IS: Mapping[tuple[Sort, Share], tuple[str, str]] = {
    ("zero", "none"): ("is", "was"),
    ("zero", "most"): ("are", "were"),
    ("off centre", "none"): ("are", "were"),
    ("off centre", "most"): ("are", "were"),
}
_NOW: Mapping[Sort, tuple[str, str]] = {
    "zero": ("at most one number in three is 0", "at least two numbers in three are 0"),
    "off centre": ("the columns are centred at 0", "the columns are off centre, by more than they scatter"),
}


@dataclass(frozen=True)
class RowsHold(Claim):
    """Rows of an input of a model or loss hold a number of a sort: none of them, or at least every second one. Or so
    much is said of all its numbers together.
    """

    model: str
    given: str
    sort: Sort
    share: Share


@dataclass(frozen=True)
class WholeNumbers(Claim):
    """The whole numbers of an input of a model or loss begin or end with one number."""

    model: str
    given: str
    extreme: Extreme
    number: int


@dataclass(frozen=True)
class GivenAs(Claim):
    """An input of a model or loss has one dtype."""

    model: str
    given: str
    dtype: str


@dataclass(frozen=True)
class SameInEvaluation(Claim):
    """An input of a model or loss is of the same sorts in evaluation as in training."""

    model: str
    given: str
    sorts: Annotated[tuple[Sort, ...], Items(1, len(SORTS))]
    stage: Literal["eval"] = field(default="eval", init=False)


Claims = RowsHold | WholeNumbers | GivenAs | SameInEvaluation


class Ranges:
    """Of the rows that a model is given in training none holds a negative number, or at least every second one does;
    likewise numbers beyond 1 and -1, and such as are not whole. Likewise targets of losses. Whole numbers go from one
    number to another. What is given in evaluation is of the same sorts.

    It is broken where the opposite is the case. Chance does not lead from one to the other in as many rows or batches
    as are seen, and what lies between breaks nothing.
    """

    name = "Ranges"
    looks: ClassVar[Looks] = frozenset({NUMBER_SORTS})
    claims: ClassVar[tuple[type[Claim], ...]] = (RowsHold, WholeNumbers, GivenAs, SameInEvaluation)

    def layer(self, claim: Claims) -> int:
        return 1

    def meaning(self, rule: Invariant[Claims]) -> Meaning:
        return Meaning(
            Place.DATA,
            comes_with=frozenset({Change.VALUES}),
            # What a loop does with a batch, a model may do itself. What is evaluated shows in no training step.
            shown_by=Evidence.NONE if isinstance(rule.claim, SameInEvaluation) else Evidence.TRAINED,
            words=Words(words=(rule.claim.given,), parts=("normalize", "scale", "transform")),
        )

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        claims: dict[Claims, None] = {}
        for process in run.processes:
            for owner, given, stage in batches(process):
                if stage == TRAIN:
                    claims |= dict.fromkeys(_of_training(process, owner, given))
                elif sorts := _alike(process, owner, given):
                    claims[SameInEvaluation(owner, given, sorts)] = None
            for (owner, given), found in types(process).items():
                if len(found) == 1:
                    claims[GivenAs(owner, given, next(iter(found)))] = None
        for claim in sorted(claims, key=repr):
            yield Hypothesis(self.name, claim.model, claim, Kind.BEHAVIOUR, Scope.PINNED)

    def examples(self, claim: Claims, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: Claims, subject: str, when: str) -> str:
        what = _input(claim)
        if isinstance(claim, SameInEvaluation):
            return f"In evaluation {what} {_are(claim)} the same sort of numbers as in training{when}."
        if isinstance(claim, GivenAs):
            return f"{_capital(what)} {_are(claim)} {claim.dtype}{when}."
        if isinstance(claim, WholeNumbers):
            return f"The {claim.extreme} number in {what} is {claim.number}{when}."
        if claim.sort in _OF_ALL:
            said = _OF_ALL[claim.sort][SHARES.index(claim.share)]
            return f"{_capital(said.format(what, _IS[claim.sort, claim.share][0]))}{when}."
        rows = "No row" if claim.share == "none" else "Every second row or more"
        return f"{rows} of {what} {_does(claim.sort)}{when}."

    def finding(self, invariant: Invariant[Claims], run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        seen = examples.observed[int(broken[0])] if examples.observed is not None else "?"
        if isinstance(claim, RowsHold):
            return _of_rows(claim, seen)
        what = _input(claim)
        if isinstance(claim, GivenAs):
            was = "were" if is_loss(claim.model) else "was"
            return Finding(
                f"{_capital(what)} {was} {claim.dtype} in the golden run and {_are(claim)} {seen} in the candidate.",
                f"{claim.dtype}",
                seen,
                value=seen,
            )
        if isinstance(claim, WholeNumbers):
            return Finding(
                f"The {claim.extreme} number in {what} was {claim.number} in the golden run and is {seen} in the "
                "candidate: numbers stand for other things, are counted from another one on, or are not limited alike.",
                f"{claim.extreme} number {claim.number}",
                f"{claim.extreme} number {seen}",
                value=seen,
                common_cause=f"{claim.extreme} number {seen}",
            )
        return Finding(
            f"In the golden run {what} {'were' if is_loss(claim.model) else 'was'} the same sort of numbers in "
            f"evaluation as in training; in the candidate, in evaluation, {seen}: it is prepared otherwise than in "
            "training.",
            "prepared alike in evaluation and in training",
            seen,
            value=seen,
        )


def _of_rows(claim: RowsHold, seen: str) -> Finding:
    what, none = _input(claim), claim.share == "none"
    if claim.sort in _OF_ALL:
        golden = _OF_ALL[claim.sort][SHARES.index(claim.share)].format(what, _IS[claim.sort, claim.share][1])
        return Finding(
            f"In the golden run {golden}; in the candidate {seen}: it is scaled, shifted or inverted otherwise.",
            golden,
            seen,
            value=seen,
            common_cause=f"numbers {claim.sort}",
        )
    held = f"{_BEGAN[claim.sort]} with 0" if claim.sort in _ENDS else f"held {_HOLDS[claim.sort]}"
    how = "padded or inverted" if claim.sort in _ENDS else "scaled, shifted or rounded"
    return Finding(
        f"In the golden run {'no row' if none else 'at least every second row'} of {what} {held}; in the "
        f"candidate {seen} does: it is {how} otherwise.",
        f"{'no row' if none else 'every second row or more'} {_does(claim.sort)}",
        f"{seen} {_does(claim.sort)}",
        value=seen,
        common_cause=f"numbers {claim.sort}",
    )


def _does(sort: Sort) -> str:
    return f"{_ENDS[sort]} with 0" if sort in _ENDS else f"holds {_HOLDS[sort]}"


def _input(claim: Claims) -> str:
    return (
        f"the targets of `{claim.model}`" if is_loss(claim.model) else f"the input `{claim.given}` of `{claim.model}`"
    )


def _are(claim: Claims) -> str:
    return "are" if is_loss(claim.model) else "is"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _of_training(process: Process, owner: str, given: str) -> Iterable[Claims]:
    mine = batches(process)[owner, given, TRAIN]
    for sort in SORTS:
        share = mine.share(sort)
        if share is not None:
            yield RowsHold(owner, given, sort, share)
    for which in EXTREMES:
        number = mine.usual(which)
        if number is not None and is_bound(process, which, number):
            yield WholeNumbers(owner, given, which, number)


def _alike(process: Process, owner: str, given: str) -> tuple[Sort, ...]:
    """The sorts of which evaluation and training both have none, or both most."""
    found = batches(process)
    trained, evaluated = found.get((owner, given, TRAIN)), found[owner, given, EVAL]
    # Tokens may be those that a model has just chosen itself.
    if trained is None or (trained.counts and not is_loss(owner)):
        return ()
    pairs = ((sort, trained.share(sort), evaluated.share(sort)) for sort in SORTS)
    return tuple(sort for sort, one, other in pairs if one is not None and one == other)


def _examples(process: Process, position: int, claim: Claims) -> Examples:
    """One example for a process: all that was seen of an input together."""
    if isinstance(claim, GivenAs):
        return _typed(process, position, claim)
    stage = EVAL if isinstance(claim, SameInEvaluation) else TRAIN
    mine = batches(process).get((claim.model, claim.given, stage))
    # What models have answered themselves is no data.
    if mine is None or ((is_loss(claim.model) or isinstance(claim, WholeNumbers)) and answers_itself(process)):
        return EMPTY
    first = process.parent_row[mine.rows[:1]]
    if isinstance(claim, RowsHold):
        share = mine.share(claim.sort, repeated=True)
        if share is None or (share == claim.share != mine.share(claim.sort)):
            return EMPTY  # Neither: a golden run like this makes no rule, and a candidate breaks none.
        return _one(process, position, first, share == claim.share, _rows(claim, share))
    if isinstance(claim, WholeNumbers):
        if is_answered(process, mine):
            return EMPTY
        number = mine.extreme(claim.extreme)
        holds = number == claim.number == mine.usual(claim.extreme)
        if number is None or (not holds and mine.ever(claim.extreme, claim.number)):
            return EMPTY
        return _one(process, position, first, holds, str(number))
    return _evaluated(process, position, claim, first)


def _evaluated(process: Process, position: int, claim: SameInEvaluation, first: Ints) -> Examples:
    found = batches(process)
    trained, evaluated = found.get((claim.model, claim.given, TRAIN)), found[claim.model, claim.given, EVAL]
    if trained is None:
        return EMPTY
    pairs = {sort: (trained.share(sort), evaluated.share(sort)) for sort in claim.sorts}
    known = {sort: (one, other) for sort, (one, other) in pairs.items() if one is not None and other is not None}
    if not known:
        return EMPTY
    apart = [_of_evaluation(sort, other) for sort, (one, other) in known.items() if one != other]
    return _one(process, position, first, not apart, " and ".join(apart[:2]) or "the same")


def _of_evaluation(sort: Sort, share: Share) -> str:
    if sort in _OF_ALL:
        return _NOW[sort][SHARES.index(share)]
    return f"{'no row' if share == 'none' else 'every second row or more'} {_does(sort)}"


def _typed(process: Process, position: int, claim: GivenAs) -> Examples:
    found = types(process).get((claim.model, claim.given))
    if not found:
        return EMPTY
    dtype, row = next(((dtype, row) for dtype, row in found.items() if dtype != claim.dtype), next(iter(found.items())))
    return _one(process, position, np.array([row]), dtype == claim.dtype, dtype)


def _rows(claim: RowsHold, share: Share) -> str:
    if claim.sort in _OF_ALL:
        return _NOW[claim.sort][SHARES.index(share)]
    return "no row" if share == "none" else "every second row or more"


def _one(process: Process, position: int, row: Ints, holds: bool, seen: str) -> Examples:
    return Examples(
        np.array([holds]),
        np.array([position]),
        row,
        np.zeros(1, dtype=np.int64),
        {"rank": rank_label(process, 1)},
        Labels.of(np.zeros(1, dtype=np.int64), (seen,)),
    )
