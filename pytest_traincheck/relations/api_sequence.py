"""APISequence: calls that come in one order in every training step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations import vocabulary
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.claims import Items
from pytest_traincheck.relations.context import rank_label, step_context
from pytest_traincheck.relations.counted import GRADIENT_TYPES
from pytest_traincheck.relations.meaning import Change, Deviation, Evidence, Meaning, Place, Words, place_of_call
from pytest_traincheck.relations.moved import moved_to
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels
from pytest_traincheck.trace.process import OptimizerStep
from pytest_traincheck.trace.variables import Variables

BACKWARD = "torch.autograd.backward"

_SHOWN_BY = {
    Place.SCHEDULING: Evidence.PACED,
    Place.AVERAGING: Evidence.COPIED,
    Place.PREPARATION: Evidence.TRAINED,
}
"""What shows whether an order matters, by what comes in it. What ranks exchange is not known from one of them."""


@dataclass(frozen=True)
class Order(Claim):
    """Calls come in this order in every step, or with `per` once in a run."""

    order: Annotated[tuple[str, ...], Items(2, 3)]
    per: Literal["run"] | None = None


class APISequence:
    """What happens to gradients between the last `backward` and the optimizer's step, and in which order; and what
    an optimizer's first
    step precedes.

    Only calls that follow from one another by the data they touch are ordered, so independent statements may swap.
    """

    name = "APISequence"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (Order,)

    def layer(self, claim: Order) -> int:
        return 1

    def meaning(self, rule: Invariant[Order]) -> Meaning:
        place = place_of_call(rule.subject)
        return Meaning(
            place,
            shown_by=_SHOWN_BY.get(place, Evidence.NONE),
            acts=rule.subject,
            brings=frozenset({Change.LENGTH}),
            comes_with=frozenset({Change.LOOP}),
            words=Words(apis=tuple(api for api in rule.claim.order if "." in api)),
        )

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            between = _between(process)
            apis = sorted(between.api.values[code] for code in np.unique(between.api.codes).tolist())
            for api in apis:
                yield Hypothesis(self.name, api, Order((BACKWARD, api, "step")))
            for first in apis:
                for second in apis:
                    if first != second:
                        yield Hypothesis(self.name, second, Order((first, second)))
            for scheduler in _scheduler_calls(process):
                yield Hypothesis(self.name, scheduler, Order(("step", scheduler), "run"))

    def examples(self, claim: Order, run: Run) -> Examples:
        order = claim.order
        if not vocabulary.WAITING.isdisjoint(order):
            return EMPTY
        parts = []
        for position, process in enumerate(run.processes):
            if claim.per == "run":
                parts.append(_first_step_before(process, position, order[1]))
            elif order[0] == BACKWARD:
                parts.append(_present(process, position, order[1]))
            else:
                parts.append(_ordered(process, position, order[0], order[1]))
        return Examples.concatenate(parts)

    def sentence(self, claim: Order, subject: str, when: str) -> str:
        order = claim.order
        if claim.per == "run":
            return f"The optimizer steps before `{subject}` is first called{when}."
        if order[0] == BACKWARD:
            return f"`{subject}` is called between the last `backward` and the optimizer's step{when}."
        return f"`{order[0]}` is called before `{order[1]}` in every step in which both are called{when}."

    def finding(self, invariant: Invariant[Order], run: Run, examples: Examples, broken: Ints) -> Finding:
        order = invariant.claim.order
        subject = invariant.subject
        if invariant.claim.per == "run":
            return Finding(
                f"`{subject}` was first called after an optimizer step in the golden run; the candidate calls it "
                "before the first step.",
                "called after the optimizer's first step",
                "called before the optimizer's first step",
                deviation=Deviation.MISPLACED,
            )
        if order[0] == BACKWARD:
            return _gone_from_between(subject, run, examples, int(broken[0]))
        return Finding(
            f"`{order[0]}` was called before `{order[1]}` in the golden run; the candidate calls `{order[1]}` first.",
            f"{order[0]} before {order[1]}",
            f"{order[1]} before {order[0]}",
            deviation=Deviation.MISPLACED,
        )


def _gone_from_between(subject: str, run: Run, examples: Examples, broken: int) -> Finding:
    """What is said of a call that does not come between a backward pass and a step: where it comes instead."""
    process, row = run.processes[int(examples.process[broken])], int(examples.row[broken])
    mine = process.is_call & process.api.isin([subject])
    kept = bool((_between(process).api.isin([subject])).any())
    place = moved_to(process, np.flatnonzero(mine), process.step_number(row), on_gradients=True)
    called = any(subject in process.api.values for process in run.processes)
    if place:
        now, how = f"calls it {place}", Deviation.MISPLACED
    elif kept:
        now, how = f"does not in step {process.step_number(row)}", Deviation.LEFT_OUT
    elif called and not mine.any():
        now, how = f"does not on rank {process.rank}", Deviation.LEFT_OUT
    else:
        now, how = ("calls it elsewhere", Deviation.MISPLACED) if called else ("never calls it", Deviation.NEVER)
    seen = f"called {place}" if place else "called, but not between the last backward and the optimizer's step"
    if how is Deviation.LEFT_OUT and not kept:
        seen = "called on other ranks only"
    return Finding(
        f"`{subject}` was called between `backward` and the optimizer's step in the golden run; the candidate {now}.",
        "called between the last backward and every optimizer step",
        seen if called else "never called",
        deviation=how,
    )


@dataclass(frozen=True)
class _Between:
    """Calls on gradients between the last backward and a step.

    `steps` are positions of the steps that a backward pass precedes; `step`, `api` and `row` are parallel columns of
    calls, with the step that comes next. `backward` is for every step when the last pass before it began: steps of
    several optimizers may follow one. `late_api` and `late_backward` are columns of calls that no step follows before
    the next pass.
    """

    steps: Ints
    step: Ints
    api: Labels
    row: Ints
    backward: Ints
    late_api: Labels
    late_backward: Ints


def _calls_between(process: Process) -> _Between:
    events = process.events
    seq = events["seq"]
    begins = np.array([step.begin for step in process.steps], dtype=np.int64)
    previous = np.array([step.previous_end for step in process.steps], dtype=np.int64)

    backward = process.rows_of_type("autograd")
    backward = backward[~process.inside("autograd")[backward] & process.api.isin([BACKWARD])[backward]]
    backward_seq = np.concatenate([[0], seq[backward].astype(np.int64)])
    last_backward = backward_seq[np.searchsorted(backward_seq, begins) - 1]
    # Without one the closure of the step calls backward itself, or no gradient was computed for it.
    prepared = last_backward > previous

    calls = process.rows_of_type(*GRADIENT_TYPES)
    nested = process.inside(*GRADIENT_TYPES, "autograd", "optimizer", "module") | vocabulary.only_measures(process)
    calls = calls[~nested[calls]]
    pass_before = backward_seq[np.searchsorted(backward_seq, seq[calls]) - 1]
    step = np.searchsorted(begins, seq[calls])
    followed = step < len(begins)
    followed[followed] = last_backward[step[followed]] == pass_before[followed]
    late = calls[~followed]
    kept = followed.copy()
    kept[followed] = prepared[step[followed]]
    return _Between(
        np.flatnonzero(prepared),
        step[kept],
        process.api.take(calls[kept]),
        calls[kept],
        last_backward,
        process.api.take(late),
        pass_before[~followed],
    )


def _between(process: Process) -> _Between:
    return process.memo(_Between, lambda: _calls_between(process))


def _present(process: Process, position: int, api: str) -> Examples:
    between = _between(process)
    having = between.step[between.api.isin([api])]
    steps = between.steps
    holds = np.isin(steps, having)
    known = np.ones(len(steps), dtype=bool)
    for place in np.flatnonzero(~holds & np.isin(between.backward[steps], between.backward[having])).tolist():
        found = _before_others(process, int(steps[place]), api)
        holds[place], known[place] = bool(found), found is not None
    all_rows = np.array([step.row for step in process.steps], dtype=np.int64)
    rows, holds = all_rows[steps[known]], holds[known]
    return Examples(
        holds,
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        step_context(process, rows),
        Labels.flags(holds, "called", "not called"),
    )


def _before_others(process: Process, number: int, api: str) -> bool | None:
    """Whether a step used what a call prepared that is right before another one of the steps that follow one backward
    pass; None where nobody can say for which of their optimizers it was. Independent steps may come in any order.

    Whose gradients changed shows for whom a call was. One that changes those that a step has used already came too
    late, and so did one that no step follows.
    """
    between, step = _between(process), process.steps[number]
    backward = between.backward[number]
    if (between.late_api.isin([api]) & (between.late_backward == backward)).any():
        return False
    mine = between.api.isin([api]) & (between.backward[between.step] == backward)
    gradients = _gradients_of(process, step)
    early = False
    for row, following in zip(between.row[mine].tolist(), between.step[mine].tolist(), strict=True):
        begin, end = np.array([process.events["seq"][row], process.steps[following].begin], dtype=np.int64)[:, None]
        changes = bool(Variables.of(process).changed(gradients, begin, end).any())
        if changes and begin > step.begin:
            return False
        early |= changes
    return True if early else None


def _gradients_of(process: Process, step: OptimizerStep) -> Ints:
    """The gradients of what an optimizer holds at its step, by their ids."""
    variables = Variables.of(process)
    held = variables.membership(step.optimizer, step.begin).variables
    gradients = variables.companion("gradient")[variables.first_name[held]]
    return gradients[gradients > 0]


def _ordered(process: Process, position: int, first: str, second: str) -> Examples:
    between = _between(process)
    places: dict[str, dict[int, int]] = {}
    for name in (first, second):
        mine = between.api.isin([name])
        # The last call of each step: later entries overwrite earlier ones.
        places[name] = dict(zip(between.step[mine].tolist(), between.row[mine].tolist(), strict=True))
    both = sorted(places[first].keys() & places[second].keys())
    if not both:
        return EMPTY
    rows = np.array([places[second][step] for step in both], dtype=np.int64)
    holds = np.array([places[first][step] < places[second][step] for step in both], dtype=bool)
    return Examples(
        holds,
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"first_step": Labels.flags(process.window[rows] == 0), "rank": rank_label(process, len(rows))},
    )


def _scheduler_calls(process: Process) -> dict[str, int]:
    """The first call of each scheduler's step."""
    first: dict[str, int] = {}
    for row in process.rows_of_type("scheduler").tolist():
        first.setdefault(process.api[row], row)
    return first


def _first_step_before(process: Process, position: int, scheduler: str) -> Examples:
    calls = _scheduler_calls(process)
    if scheduler not in calls or not process.steps:
        return EMPTY
    row = calls[scheduler]
    return Examples(
        np.array([process.steps[0].row < row]),
        np.array([position]),
        np.array([row]),
        np.zeros(1, dtype=np.int64),
        {"rank": rank_label(process, 1)},
    )
