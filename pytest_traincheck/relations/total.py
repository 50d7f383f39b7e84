"""Total: how much one run of a command trains and evaluates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

import numpy as np

from pytest_traincheck.looks import FEEDBACK, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.called import FORWARD, Called
from pytest_traincheck.relations.claims import Natural
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.counted import counted, said_otherwise, steps_optimizer
from pytest_traincheck.relations.given import examples_given, examples_known, given_unseen
from pytest_traincheck.relations.meaning import Basic, Change, Deviation, Evidence, Meaning, Place
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.text import plural
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Ints, Labels

STEPS: Final = "steps"
EVALUATIONS: Final = "evaluations"
EXAMPLES: Final = "examples"
DIFFERENT: Final = "different examples"

_ASKED = "GradScaler.step"


@dataclass(frozen=True)
class Steps(Claim):
    """Something steps so often in a run, after so many backward passes; on the rank with most steps alone (`longest`)
    where golden's ranks take as many as each has data for.
    """

    of: Literal["steps"] = field(default=STEPS, init=False)
    api: Called
    total: Natural
    backward: Natural | None = None
    longest: Literal[True] | None = None


@dataclass(frozen=True)
class AtLeast(Claim):
    """A model is called at so many points of a run or more, or on so many examples; on so many different examples
    where golden may have given it the same ones at several places of the code.
    """

    of: Literal["evaluations", "examples", "different examples"]
    api: Called
    total: Natural


class Total:
    """An optimizer makes so many steps in a run, a model is evaluated in so many places and on so many examples.

    A program that stops half-way and ends in good order breaks no rule about what happens in a step. Steps are counted
    exactly; of evaluations and examples there may be more. What differs between golden runs, as where training stops
    when nothing improves, is no rule.
    """

    name = "Total"
    looks: ClassVar[Looks] = frozenset({FEEDBACK})
    claims: ClassVar[tuple[type[Claim], ...]] = (Steps, AtLeast)

    def layer(self, claim: Steps | AtLeast) -> int:
        return 1

    def meaning(self, rule: Invariant[Steps | AtLeast]) -> Meaning:
        length = frozenset({Change.LENGTH})
        return Meaning(
            Place.RUN,
            # What is missing in a step comes before what is missing in the whole run; steps that are never taken bring
            # their examples and evaluations with them.
            order=1 if isinstance(rule.claim, Steps) else 2,
            brings=length,
            basic=Basic.STEPS if isinstance(rule.claim, Steps) else Basic.NONE,
            comes_with=length,
            model=rule.claim.api.model,
            evaluates=rule.claim.api.stage == "eval",
            # In training the weights would show that something is missing.
            shown_by=_shown_by(rule.claim),
            per_run=True,
        )

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for number, process in enumerate(run.processes):
            longest: Literal[True] | None = True if _waits(run, number) else None
            for called in _stepping(process):
                total = len(counted(process)[called])
                for claim in (
                    Steps(called, total, _backward(process), longest),
                    Steps(called, total, longest=longest),
                ):
                    yield Hypothesis(self.name, called.api, claim, scope=Scope.PINNED, family=f"steps {called}")
        for called in _called(run):
            different, total = examples_known(run, called)
            totals = [AtLeast(DIFFERENT if different else EXAMPLES, called, total)]
            if called.stage == "eval":
                totals.append(AtLeast(EVALUATIONS, called, _places(run, called)))
            for least in totals:
                if least.total:
                    yield Hypothesis(self.name, called.api, least, scope=Scope.PINNED, unanimous=True)

    def examples(self, claim: Steps | AtLeast, run: Run) -> Examples:
        if isinstance(claim, Steps):
            return Examples.concatenate(
                [
                    _example(run.processes[number], number, _steps(run.processes[number], claim.api), claim)
                    for number in _counting(run, claim)
                ]
            )
        found = (
            _places(run, claim.api)
            if claim.of == EVALUATIONS
            else examples_given(run, claim.api, different=claim.of == DIFFERENT)
        )
        if not run.processes or (claim.of != EVALUATIONS and found < claim.total and given_unseen(run, claim.api)):
            return EMPTY
        return _one(run.processes[0], 0, found >= claim.total, str(found))

    def sentence(self, claim: Steps | AtLeast, subject: str, when: str) -> str:
        spoken, total = claim.api.code, claim.total
        if claim.of == STEPS:
            which = " by the rank with most steps" if claim.longest else ""
            return f"{spoken} is called {_times(total)} in a run{which}{when}."
        if claim.of == EVALUATIONS:
            return f"{spoken} is called at {total} or more points of a run{when}."
        return f"{spoken} is given {total} or more {claim.of} in a run{when}."

    def finding(self, invariant: Invariant[Steps | AtLeast], run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        spoken, total = claim.api.code, claim.total
        seen = examples.observed[int(broken[0])] if examples.observed is not None else "0"
        if claim.of == EVALUATIONS:
            return Finding(
                f"In the golden run {spoken} was called at {total} or more points, before, between or after the "
                f"training steps; in the candidate at {seen}: evaluations are missing.",
                f"called at {total} or more points",
                f"called at {seen}",
                deviation=Deviation.FEWER,
            )
        if claim.of != STEPS:
            # Evaluations that are missing altogether break another rule.
            calls = "evaluation or validation calls it less often, or on fewer or smaller batches"
            often = calls if claim.api.stage == "eval" else ""
            return Finding(
                f"In the golden run {spoken} was given {total} or more {claim.of}; in the candidate {seen}"
                f"{f': {often}' if often else ''}.",
                f"given {total} or more {claim.of}",
                f"given {seen}",
                deviation=Deviation.FEWER,
            )
        found, _, early = seen.partition(" ")
        made = plural(int(found), "optimizer step")
        golden = f"{plural(total, 'step')} in every run"
        if early:
            return Finding(
                f"The candidate made {made} ({spoken}), the golden run {total}: the candidate's run ends early.",
                golden,
                f"ended after {plural(int(found), 'step')}",
                deviation=Deviation.CUT_SHORT,
            )
        return Finding(f"The candidate made {made} ({spoken}), the golden run {total}.", golden, f"{found} steps")


def _shown_by(claim: Steps | AtLeast) -> Evidence:
    """What shows that it makes no difference: all steps of a run are known, whichever optimizer took them."""
    if isinstance(claim, AtLeast) and claim.api.api == FORWARD and claim.api.stage == "eval":
        return Evidence.EVALUATED
    of_optimizer = isinstance(claim, Steps) and not claim.api.api.endswith(_ASKED)
    return Evidence.TRAINED if of_optimizer or claim.api.stage == "train" else Evidence.NONE


def _times(total: int) -> str:
    return {1: "exactly once", 2: "exactly twice"}.get(total, f"exactly {total} times")


def _stepping(process: Process) -> list[Called]:
    """What takes steps: each optimizer, or the gradient scaler, to which it is left whether a step is taken."""
    found = counted(process)
    asked = [called for called in found if called.api.endswith(_ASKED) and len(found[called])]
    if asked:
        return asked
    return [called for called, rows in found.items() if len(rows) and _is_step(process, called)]


def _is_step(process: Process, called: Called) -> bool:
    return steps_optimizer(process, called) and not said_otherwise(process, called)


def _steps(process: Process, called: Called) -> int:
    return len(counted(process).get(called, ()))


def _counting(run: Run, claim: Steps) -> list[int]:
    """Positions of the processes whose steps are counted. Of ranks that wait where they have no more data, in golden or
    in the candidate, the one that had most of it says how long the training was.
    """
    shorter = set[int]()
    for peers in run.peers:
        if claim.longest or _waits(run, peers[0]):
            shorter.update(set(peers) - {max(peers, key=lambda position: _steps(run.processes[position], claim.api))})
    return [position for position in range(len(run.processes)) if position not in shorter]


def _waits(run: Run, position: int) -> bool:
    """Whether a process has waited for other ranks that had more data, or one of these for it."""
    peers = next((group for group in run.peers if position in group), (position,))
    return any(len(run.processes[number].measures(fmt.WAITED)) for number in peers)


def _backward(process: Process) -> int:
    """Backward passes of a run, those outside of every step."""
    rows = process.rows_of_type("autograd")
    return int((~process.inside("autograd", "optimizer")[rows]).sum())


def _example(process: Process, number: int, found: int, claim: Steps) -> Examples:
    total, golden = claim.total, claim.backward
    # Where a step is left out its backward pass is not; a run that is cut short has fewer of both.
    early = found < total and (golden is None or _backward(process) * total == golden * found)
    return _one(process, number, found == total, f"{found} early" if early else str(found))


def _one(process: Process, number: int, holds: bool, observed: str) -> Examples:
    """A single example for a process, at its last step."""
    rows = [step.row for step in process.lead_steps]
    return Examples(
        np.array([holds]),
        np.array([number]),
        np.array(rows[-1:] or [0], dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        {"rank": rank_label(process, 1)} if number or len(rows) else {},
        Labels.of(np.zeros(1, dtype=np.int64), (observed,)),
    )


def _called(run: Run) -> list[Called]:
    """The models that are called, by stage; not in set-up, where one may show its shapes."""
    found = {
        called: None
        for process in run.processes
        for called, rows in counted(process).items()
        if called.api == FORWARD and len(rows) and called.stage != "init"
    }
    return sorted(found)


def _forward(process: Process, called: Called) -> Ints:
    """Calls of a model; not those in a closure, which an optimizer calls as often as it sees fit."""
    rows = counted(process).get(called, np.empty(0, dtype=np.int64))
    return rows[~process.inside("autograd", "optimizer")[rows]]


def _places(run: Run, called: Called) -> int:
    """After how many different numbers of steps a model is called, by any rank. Where ranks take different numbers of
    steps, it is the same evaluation after another number on each.
    """
    found = [set(process.window[_forward(process, called)].tolist()) for process in run.processes]
    if any(len(process.measures(fmt.WAITED)) for process in run.processes):
        return max(map(len, found), default=0)
    return len(set[int]().union(*found))
