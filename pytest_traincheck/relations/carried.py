"""Carried: whether a step goes on with what the step before has left, an optimizer's state or that of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from pytest_traincheck.looks import FEEDBACK, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.called import FORWARD
from pytest_traincheck.relations.claims import Items, Natural
from pytest_traincheck.relations.context import module_roots, rank_label
from pytest_traincheck.relations.counted import skipped_windows
from pytest_traincheck.relations.meaning import Evidence, Meaning, Place, Words
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.text import steps_listed
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.stages import TRAIN

LEFT, HELD, BEGUN, FED_BACK = "optimizer.left", "optimizer.held", "optimizer.state", "fed.back"
_MEASURED = 8
"""Steps in which it is looked whether a model is fed back."""


_STATES = Words(names=("init_hidden", "detach", "detach_"), words=("hidden", "state", "hx"))


@dataclass(frozen=True)
class StateIsKept(Claim):
    """An optimizer, by its label, keeps its state from step to step."""

    optimizer: str


@dataclass(frozen=True)
class StateIsGiven(Claim):
    """In training a model is given what its call before has returned, in these of the first steps and in no others."""

    root: str
    at: Annotated[tuple[Natural, ...], Items(1, _MEASURED)]


class Carried:
    """Before a step an optimizer holds state (momentum, moments, step counts) for no fewer parameters than its step
    before has left it with. One that keeps no state carries none.

    A model that is given what it returned the call before, as a recurrent network its hidden state, is given it in the
    same steps of every run: where the state begins anew belongs to the program, and not to chance.
    """

    name = "Carried"
    looks: ClassVar[Looks] = frozenset({FEEDBACK})
    claims: ClassVar[tuple[type[Claim], ...]] = (StateIsKept, StateIsGiven)

    def layer(self, claim: StateIsKept | StateIsGiven) -> int:
        return 1

    def meaning(self, rule: Invariant[StateIsKept | StateIsGiven]) -> Meaning:
        if isinstance(rule.claim, StateIsGiven):
            # A model may keep its state itself instead of being given it.
            return Meaning(Place.DATA, order=1, by_length=True, shown_by=Evidence.TRAINED, words=_STATES)
        return Meaning(Place.RESUMED)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            for number in np.unique(process.events["opt"][process.measures(HELD)]).tolist():
                claim = StateIsKept(process.names.optimizers[number])
                yield Hypothesis(self.name, f"{process.optimizer_class[number]}.state", claim, scope=Scope.PINNED)
            for root, rows in sorted(_looks(process).items()):
                at = _given_at(process, rows)
                if at and not len(skipped_windows(process)):
                    yield Hypothesis(self.name, FORWARD, StateIsGiven(root, tuple(at)), scope=Scope.PINNED)

    def examples(self, claim: StateIsKept | StateIsGiven, run: Run) -> Examples:
        if isinstance(claim, StateIsGiven):
            return Examples.concatenate(
                [_given(process, position, claim) for position, process in enumerate(run.processes)]
            )
        return Examples.concatenate(
            [
                _examples(process, position, numbers)
                for position, process in enumerate(run.processes)
                if (numbers := _of_label(process, claim.optimizer))
            ]
        )

    def sentence(self, claim: StateIsKept | StateIsGiven, subject: str, when: str) -> str:
        if isinstance(claim, StateIsGiven):
            return f"In training `{claim.root}` is given what it returned the call before in {_at(claim.at)}{when}."
        return f"`{claim.optimizer}` keeps its state (momentum, moments, step counts) from step to step{when}."

    def finding(
        self, invariant: Invariant[StateIsKept | StateIsGiven], run: Run, examples: Examples, broken: Ints
    ) -> Finding:
        claim = invariant.claim
        seen = examples.observed[int(broken[0])] if examples.observed is not None else "?"
        if isinstance(claim, StateIsGiven):
            return Finding(
                f"In the golden run `{claim.root}` was given what it returned the call before, such as a hidden state, "
                f"in {_at(claim.at)}; in the candidate {seen}: its state is not carried on, or is reset elsewhere.",
                f"in {_at(claim.at)}",
                seen,
                value=seen,
            )
        return Finding(
            f"In the golden run `{claim.optimizer}` kept its state (momentum, moments, step counts) from "
            f"step to step; in the candidate it takes a step {seen}: before that step the state was cleared or "
            "replaced, or the optimizer was made again.",
            "each step with the state of the step before",
            seen,
        )


def _at(steps: Sequence[int]) -> str:
    return f"step {steps[0]}" if len(steps) == 1 else f"steps {steps_listed(steps)}"


def _looks(process: Process) -> Mapping[str, Ints]:
    """Rows of the looks at what a model is given, by the name of the model."""

    def compute() -> Mapping[str, Ints]:
        rows = process.measures(FED_BACK)
        rows = rows[process.parent_row[rows] >= 0]
        rows = rows[_called_again(process, process.parent_row[rows])]
        modules = process.events["mod"][process.parent_row[rows]]
        roots = Labels.of(module_roots(process)[modules], process.names.roots)
        return {root: rows[mine] for root, mine in roots.groups(np.arange(len(rows))).items()}

    return process.memo("fed back", compute)


def _called_again(process: Process, calls: Ints) -> Bools:
    """Which calls are of the very module that was called before. What a part of a model is given by the part before it
    is no state: the program calls the layers one after the other.
    """
    entries = process.entry_rows[process.stage[process.entry_rows] == TRAIN]
    modules = process.events["mod"]
    roots = module_roots(process)[modules[entries]]
    order = np.argsort(roots, kind="stable")
    again = np.zeros(len(process.events), dtype=bool)
    later, before = entries[order[1:]], entries[order[:-1]]
    again[later] = modules[later] == modules[before]
    return np.asarray(again[calls])


def _given_at(process: Process, rows: Ints) -> list[int]:
    found: list[int] = np.unique(process.window[rows[process.events["value"][rows] > 0]]).tolist()
    return [window for window in found if window < _MEASURED]


def _given(process: Process, position: int, claim: StateIsGiven) -> Examples:
    """A single example for a process that calls the model more than once, at the first step that is not golden's."""
    rows = _looks(process).get(claim.root, np.empty(0, dtype=np.int64))
    at = _given_at(process, rows)
    # A run that ends early is told as such.
    wanted = [step for step in claim.at if step < process.windows]
    if not len(rows) or not wanted or len(skipped_windows(process)):
        return EMPTY
    wrong = sorted({*at} ^ {*wanted})
    there = rows[np.isin(process.window[rows], wrong)]
    return Examples(
        np.array([not wrong]),
        np.array([position]),
        (there if len(there) else rows)[:1],
        np.zeros(1, dtype=np.int64),
        {"rank": rank_label(process, 1)},
        Labels.constant(f"in {_at(at)}" if at else "never", 1),
    )


def _of_label(process: Process, label: str) -> list[int]:
    """The optimizers of one name: more than one, where a later one takes the place of the first."""
    return [number for number, name in enumerate(process.names.optimizers) if name == label]


def _examples(process: Process, position: int, optimizers: Sequence[int]) -> Examples:
    """One example for each step of an optimizer, or of one that takes its place, that comes after one which has left
    state.
    """
    events = process.events
    held = np.sort(np.concatenate([process.measures(HELD), process.measures(BEGUN)]))
    left, rows = (found[np.isin(events["opt"][found], optimizers)] for found in (process.measures(LEFT), held))
    before = np.searchsorted(left, rows) - 1
    rows, before = rows[before >= 0], before[before >= 0]
    was, now = events["value"][left[before]].astype(np.int64), events["value"][rows].astype(np.int64)
    rows, was, now = rows[was > 0], was[was > 0], now[was > 0]
    if not len(rows):
        return EMPTY
    pairs, codes = np.unique(np.stack([was, now], axis=1), axis=0, return_inverse=True)
    return Examples(
        np.asarray(now >= was),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"rank": rank_label(process, len(rows))},
        Labels.of(codes.reshape(-1), [_with(*pair) for pair in pairs.tolist()]),
    )


def _with(was: int, now: int) -> str:
    if now >= was:
        return "with the state of the step before"
    return f"without the state of {was - now} of {was} parameters" if now else "without any state"
