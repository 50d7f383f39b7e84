"""LossTerms: how many terms of the loss carry gradients."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

import numpy as np

from pytest_traincheck.looks import FEEDBACK, LATER, TERMS, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.claims import Natural
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.given import fed_back
from pytest_traincheck.relations.meaning import Basic, Change, Deviation, Excuse, Meaning, Place
from pytest_traincheck.relations.model_sizes import other_sizes
from pytest_traincheck.relations.reached import grown
from pytest_traincheck.relations.thawed import trains_others
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.stages import TRAIN

SUBJECT = "torch.autograd.backward"
Labelled = Literal["loss.reach", "loss.means"]
REACH: Final = "loss.reach"
MEANS: Final = "loss.means"
LATE = 3
WORDS: Mapping[Labelled, str] = {
    REACH: "The terms of the loss send gradients to {}",
    MEANS: "The means in the loss go over {} elements",
}
FINDINGS: Mapping[Labelled, str] = {
    REACH: "In the golden run the terms of the loss sent gradients to {}; in the candidate to {}: {}.",
    MEANS: "In the golden run the means in the loss went over {} elements; in the candidate over {}: {}.",
}
USUAL: Mapping[Labelled, str] = {
    REACH: "a `detach` is missing or misplaced, or the loss is made of different terms",
    MEANS: "batches have more or fewer rows, shapes were broadcast, or a different dimension is averaged",
}
"""Why it is so, as far as nothing else is known."""
COARSE, FINE = "loss.terms", "loss.terms.fine"
LATER_TERMS = "later.terms"
_STAYS = 8
"""Backward passes of one line, one after the other, that have fewer terms in later steps: in some batch there may be
nothing that a term is about.
"""
FORWARD: Final = "losses per forward pass"
Passes = Literal["together", "each", "accumulated"]
TOGETHER: Final = "together"
EACH: Final = "each"
ACCUMULATED: Final = "accumulated"
"""Whether all backward passes before an optimizer step are looked at together, or each, or all of several."""


@dataclass(frozen=True)
class Terms(Claim):
    """So many terms carry gradients, in the passes that are looked at together."""

    at_least: Natural
    passes: Passes


@dataclass(frozen=True)
class PerForward(Claim):
    """As many losses go backward for each forward pass, in every step."""

    alike: Literal["losses per forward pass"] = field(default=FORWARD, init=False)
    passes: Literal["accumulated"] = field(default=ACCUMULATED, init=False)


@dataclass(frozen=True)
class Reach(Claim):
    """Where the terms send gradients, or what means go over: numbers of elements as text."""

    of: Labelled
    passes: Literal["together", "each"]
    value: str


class LossTerms:
    """The loss that a backward pass starts from is a sum of at least so many terms that carry gradients. A term that
    was detached is still in the number, and in nothing else.

    Golden counts sums of single numbers; the candidate is counted also through means and sums over elements, so that
    `(a + b).mean()` in place of `a.mean() + b.mean()` is no change. The terms send gradients to the same sets of
    parameters, known by their sizes, however the arithmetic is written and whether projections lie in one matrix or in
    three; and where as many means are taken, they go over as many elements.

    Where golden goes backward once before each optimizer step, the terms of a candidate may go backward one after the
    other: what all passes before a step have is taken together. Where it goes backward several times, as often before
    each step, all passes together have at least as many terms; where not as often, over a rest at the end of an epoch
    say, there are as many terms for each forward pass in every step.

    In later steps a line that had so many terms in the first ones has fewer in several passes one after the other.
    """

    name = "LossTerms"
    looks: ClassVar[Looks] = frozenset({FEEDBACK, LATER, TERMS})
    claims: ClassVar[tuple[type[Claim], ...]] = (Terms, PerForward, Reach)

    def layer(self, claim: Terms | PerForward | Reach) -> int:
        # How much is averaged is decided where the loss is called, and with it how much is drawn.
        return 1 if not isinstance(claim, Reach) else LATE if claim.of == REACH else 2

    def meaning(self, rule: Invariant[Terms | PerForward | Reach]) -> Meaning:
        # How many losses there are is not said by those that were compared.
        of_one_loss = rule.claim.passes != ACCUMULATED
        return Meaning(
            Place.LOSS,
            basic=Basic.GRADIENTS if isinstance(rule.claim, Reach) and rule.claim.of == REACH else Basic.NONE,
            # A derivative without a graph is a term without gradients.
            comes_with=frozenset({Change.BATCHES, Change.WINDOWS, Change.DERIVATIVES}),
            excuse=Excuse.OWN_RESULT if of_one_loss else Excuse.NONE,
        )

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            passes: Literal["together", "each"] = TOGETHER if _goes_backward_once(process) else EACH
            coarse = process.measures(COARSE)
            repeated = _repeated(process, coarse)
            counts = process.events["value"][coarse].astype(np.int64) - repeated
            for least in sorted({int(count) for count in counts if count > 1}, reverse=True):
                yield Hypothesis(
                    self.name, SUBJECT, Terms(least, passes), scope=Scope.PINNED, family="terms", unanimous=True
                )
            sums = set(_accumulated(process)[1].tolist())
            if passes == TOGETHER or repeated.any():
                pass  # There is but one loss before a step, or how many terms there are is up to the data.
            elif len(sums) == 1 and max(sums) > 1:
                yield Hypothesis(self.name, SUBJECT, Terms(max(sums), ACCUMULATED), scope=Scope.PINNED, unanimous=True)
            elif len(sums) > 1:
                yield Hypothesis(self.name, SUBJECT, PerForward(), scope=Scope.PINNED)
            for what in WORDS:
                for value in sorted(_labelled(process, what)):
                    yield Hypothesis(self.name, SUBJECT, Reach(what, passes, value), scope=Scope.PINNED)

    def examples(self, claim: Terms | PerForward | Reach, run: Run) -> Examples:
        processes = enumerate(run.processes)
        if isinstance(claim, PerForward):
            return Examples.concatenate([_per_forward(process, number) for number, process in processes])
        if isinstance(claim, Reach):
            return Examples.concatenate([_labelled_examples(process, number, claim) for number, process in processes])
        return Examples.concatenate([_examples(process, number, claim) for number, process in processes])

    def sentence(self, claim: Terms | PerForward | Reach, subject: str, when: str) -> str:
        if isinstance(claim, Reach):
            return f"{WORDS[claim.of].format(_spoken(claim.of, claim.value))}{when}."
        if isinstance(claim, PerForward):
            return f"Every training step has the same number of losses for each forward pass of a model{when}."
        if claim.passes == ACCUMULATED:
            return f"Each optimizer step comes after backward passes over at least {claim.at_least} losses{when}."
        return f"The loss is a sum of at least {claim.at_least} terms that have gradients{when}."

    def finding(
        self, invariant: Invariant[Terms | PerForward | Reach], run: Run, examples: Examples, broken: Ints
    ) -> Finding:
        claim = invariant.claim
        if isinstance(claim, Reach):
            what = claim.of
            was = _spoken(what, claim.value)
            now = _spoken(what, examples.observed[int(broken[0])]) if examples.observed is not None else "others"
            # Sets are known by their sizes, and a model of another size has other ones.
            reason = (other_sizes(run) if what == REACH else "") or USUAL[what]
            return Finding(FINDINGS[what].format(was, now, reason), was, now, value=now)
        seen = examples.observed[int(broken[0])] if examples.observed is not None else "fewer"
        if isinstance(claim, PerForward):
            return Finding(
                "In the golden run every training step had the same number of losses for each forward pass of a "
                f"model; in the candidate there is a step with {seen}: a backward pass is missing.",
                "the same number of losses for each forward pass in every step",
                seen,
                deviation=Deviation.FEWER,
            )
        least = claim.at_least
        if claim.passes == ACCUMULATED:
            return Finding(
                f"In the golden run each optimizer step came after backward passes over at least {least} losses; in "
                f"the candidate one comes after {seen}: a backward pass is missing, or gradients accumulate over "
                "fewer.",
                f"at least {least} losses",
                seen,
                value=seen,
                deviation=Deviation.FEWER,
            )
        return Finding(
            f"In the golden run the loss was a sum of at least {least} terms that have gradients; in the candidate "
            f"{seen} {'has' if seen == '1' else 'have'}: a term is detached or missing.",
            f"at least {least} terms",
            seen,
            value=seen,
            deviation=Deviation.FEWER,
        )


def _spoken(what: Labelled, value: str) -> str:
    """`16; 24` as "sets of parameters with 16 and 24 elements"; numbers of elements as they are."""
    if what == MEANS:
        return value
    *others, last = value.split("; ")
    return (
        f"sets of parameters with {', '.join(others)} and {last} elements"
        if others
        else (f"parameters with {last} elements")
    )


def _labelled(process: Process, what: Labelled) -> Mapping[str, Ints]:
    """Rows of a measure that carries what it found in its name, in order for each finding."""
    found: dict[str, list[Ints]] = {}
    for name in {str(symbol.get("name", "")) for symbol in process.raw.symbols["measure"]}:
        if name.startswith(f"{what}="):
            value = name.partition("=")[2]
            found.setdefault(_sizes(value) if what == REACH else value, []).append(process.measures(name))
    return {value: np.sort(np.concatenate(parts)) for value, parts in found.items()}


def _sizes(sets: str) -> str:
    """`2 (16 elements); 3 (24 elements)` without how many parameters each set has."""
    sizes = {int(size) for size in re.findall(r"\((\d+) elements\)", sets)}
    return "; ".join(str(size) for size in sorted(sizes))


def _labelled_examples(process: Process, position: int, claim: Reach) -> Examples:
    found = _labelled(process, claim.of)
    if claim.passes == TOGETHER:
        found = _taken_together(process, found, claim.of)
    if claim.of == MEANS:
        # A mean that became a sum and a division is no other mean.
        wanted = claim.value.count(",")
        found = {value: rows for value, rows in found.items() if value.count(",") == wanted}
    if not found:
        return EMPTY
    rows = np.concatenate(list(found.values()))
    seen = Labels.concatenate([Labels.constant(value, len(part)) for value, part in found.items()])
    order = np.argsort(rows, kind="stable")
    if claim.of == MEANS and trains_others(process):
        order = order[~process.judged(rows[order])]  # What has no gradients is no term.
    rows, seen = rows[order], seen.take(order)
    holds = seen.isin([claim.value])
    if claim.of == REACH and not holds.all():
        holds |= grown(process, rows, [_numbers(seen[place]) for place in range(len(seen))], _numbers(claim.value))
    return Examples(
        holds,
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"rank": rank_label(process, len(rows)), "time": _time(process, rows)},
        seen,
    )


def _numbers(sets: str) -> list[int]:
    """`16; 24` as numbers."""
    return [int(size) for size in sets.split("; ") if size]


def _steps_before(process: Process, rows: Ints) -> Ints:
    """How many optimizer steps had been taken before each row."""
    ends = np.sort(np.array([step.end for step in process.steps], dtype=np.int64))
    return np.searchsorted(ends, process.events["seq"][rows].astype(np.int64))


def _goes_backward_once(process: Process) -> bool:
    """Whether there is a single backward pass before each optimizer step, as without accumulation."""
    groups = _steps_before(process, process.measures(FINE))
    return len(np.unique(groups)) == len(groups)


def _taken_together(process: Process, found: Mapping[str, Ints], what: Labelled) -> Mapping[str, Ints]:
    """The same for all backward passes before an optimizer step, at the row of the first of them."""
    groups: dict[int, list[tuple[int, str]]] = {}
    for value, rows in found.items():
        for group, row in zip(_steps_before(process, rows).tolist(), rows.tolist(), strict=True):
            groups.setdefault(group, []).append((row, value))
    together: dict[str, list[int]] = {}
    for members in groups.values():
        together.setdefault(_merged([value for _, value in members], what), []).append(min(members)[0])
    return {value: np.array(sorted(rows), dtype=np.int64) for value, rows in together.items()}


def _merged(values: list[str], what: Labelled) -> str:
    separator = "; " if what == REACH else ", "
    parts = [int(part) for value in values for part in value.split(separator)]
    return separator.join(str(part) for part in sorted(set(parts) if what == REACH else parts))


def _repeated(process: Process, rows: Ints) -> Ints:
    """How many terms of each backward pass may come from further calls of a model that is unrolled over a sequence: of
    these there are as many as the data is long.
    """
    calls = fed_back(process)
    before = np.searchsorted(rows, calls)
    more = np.zeros(len(rows) + 1, dtype=np.int64)
    for module in np.unique(process.events["mod"][calls]):
        mine = before[process.events["mod"][calls] == module]
        np.maximum(more, np.bincount(mine, minlength=len(rows) + 1) - 1, out=more)
    return more[:-1]


def _time(process: Process, rows: Ints) -> Labels:
    """Which backward pass this is within its step: a generator and a discriminator have losses of their own."""
    parents = process.parent_row[rows]
    begins = np.searchsorted(process.window[parents], process.window[parents], side="left")
    number = np.arange(len(rows)) - begins
    return Labels.of(
        number, [f"{_ordinal(count + 1)} backward pass of a step" for count in range(int(number.max()) + 1)]
    )


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")


def _counts(process: Process) -> tuple[Ints, Ints]:
    """The backward passes, and how many terms each has."""
    coarse, rows = process.measures(COARSE), process.measures(FINE)
    return rows, np.maximum(process.events["value"][coarse], process.events["value"][rows]).astype(np.int64)


def _summed(process: Process, rows: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """The first backward pass before each optimizer step, and how many terms all of them have."""
    _, first, group = np.unique(_steps_before(process, rows), return_index=True, return_inverse=True)
    return rows[first], np.bincount(group.reshape(-1), weights=counts, minlength=len(first)).astype(np.int64)


def _accumulated(process: Process) -> tuple[Ints, Ints]:
    """The same for steps that were taken."""
    rows, counts = _counts(process)
    before = _steps_before(process, rows) < len(process.steps)
    before &= ~_of_searches(process)[rows]
    return _summed(process, rows[before], counts[before])


def _of_searches(process: Process) -> Bools:
    """What happens in closures that an optimizer calls as often as it likes, such as LBFGS; one that calls each once
    goes backward as a loop does.
    """
    inside = process.inside("optimizer")
    rows = process.measures(FINE)
    groups = _steps_before(process, rows[inside[rows]])
    return inside if len(np.unique(groups)) < len(groups) else np.zeros(len(inside), dtype=bool)


def _per_forward(process: Process, position: int) -> Examples:
    """One example for each step: whether there are as many losses for each forward pass as where there are most.

    That the steps of a run are alike is asked, and no number, since another program may call its model once for what
    took two calls.
    """
    rows, counts = _accumulated(process)
    forward = process.forward_rows
    forward = forward[(process.stage[forward] == TRAIN) & (process.grad_mode[forward] == 1)]
    forward = forward[~_of_searches(process)[forward]]
    passes = np.bincount(_steps_before(process, forward), minlength=len(process.steps) + 1)[
        _steps_before(process, rows)
    ]
    rows, counts, passes = rows[passes > 0], counts[passes > 0], passes[passes > 0]
    if not len(rows):
        return EMPTY
    most = int(np.argmax(counts / passes))
    texts = [
        f"{_many(a, 'loss', 'es')} for {_many(b, 'forward pass', 'es')}" for a, b in zip(counts, passes, strict=True)
    ]
    return Examples(
        counts * passes[most] == passes * counts[most],
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"rank": rank_label(process, len(rows))},
        Labels.of(np.arange(len(texts)), texts),
    )


def _many(count: int, word: str, plural: str) -> str:
    return f"{count} {word}{'' if count == 1 else plural}"


def _examples(process: Process, position: int, claim: Terms) -> Examples:
    rows, counts = _counts(process)
    if claim.passes == TOGETHER:
        rows, counts = _summed(process, rows, counts)
    elif claim.passes == ACCUMULATED:
        rows, counts = _accumulated(process)
    if not len(rows):
        return EMPTY
    holds = np.asarray(counts >= claim.at_least)
    if claim.passes != ACCUMULATED:
        late, late_counts, held = _later(process, claim.at_least)
        rows, counts = np.concatenate([rows, late]), np.concatenate([counts, late_counts])
        # A process that goes on with a training measures its own first steps, behind those that were followed.
        order = np.argsort(rows, kind="stable")
        rows, counts, holds = rows[order], counts[order], np.concatenate([holds, held])[order]
    return Examples(
        holds,
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"rank": rank_label(process, len(rows)), "time": _time(process, rows)},
        Labels.of(np.minimum(counts, 99), [str(count) for count in range(100)]),
    )


def _later(process: Process, least: int) -> tuple[Ints, Ints, Bools]:
    """Of the steps that are followed, the backward passes of lines whose losses had at least so many terms in the first
    steps: rows, how many terms each has, and no for those that have fewer, where as many follow each other as stay so.
    """
    first, first_counts = _counts(process)
    rows = process.measures(LATER_TERMS)
    events = process.events
    short = np.unique(events["src"][first[first_counts < least]])
    rows = rows[np.isin(events["src"][rows], events["src"][first]) & ~np.isin(events["src"][rows], short)]
    counts = events["value"][rows].astype(np.int64)
    held = np.ones(len(rows), dtype=bool)
    for line in np.unique(events["src"][rows]).tolist():
        mine = np.flatnonzero(events["src"][rows] == line)
        fewer = counts[mine] < least
        ends = np.flatnonzero(np.diff(np.concatenate([[False], fewer, [False]]).astype(np.int8)))
        for begin, end in ends.reshape(-1, 2).tolist():
            held[mine[begin:end]] = end - begin < _STAYS
    return rows, counts, held
