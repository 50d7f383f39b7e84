"""Count: how often an API is called, per training step or per run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Literal

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations import vocabulary
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.called import FORWARD, Called
from pytest_traincheck.relations.context import rank_label, step_context
from pytest_traincheck.relations.counted import (
    GRADIENT_TYPES,
    RESTORE,
    counted,
    handed_over,
    said_otherwise,
    skipped_windows,
    steps_optimizer,
)
from pytest_traincheck.relations.later_optimizers import later
from pytest_traincheck.relations.meaning import (
    Change,
    Deviation,
    Evidence,
    Excuse,
    Meaning,
    Place,
    Words,
    place_of_call,
)
from pytest_traincheck.relations.moved import moved_to
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.gradients import Gradients
from pytest_traincheck.trace.labels import Ints, Labels
from pytest_traincheck.trace.process import OptimizerStep

BACKWARD = "torch.autograd.backward"
_LOADS = f"torch.nn.Module{RESTORE}"
STEP: Final = "torch.optim.Optimizer.step"

_NOWHERE: Ints = np.empty(0, dtype=np.int64)

_AROUND_STEPS = (*GRADIENT_TYPES, "scheduler", "update")
"""Types of calls of which the place beside backward passes and steps tells what they do."""

ANY: Final = "any"
"""Of a claim about a run: it is enough that one rank calls it."""
OFTEN = ("twice", "many times")
"""How examples say that a call comes more than once."""
Times = Literal["once", "some", "at most once"]
TIMES: Mapping[Times, str] = {"once": "exactly once", "some": "at least once", "at most once": "at most once"}


@dataclass(frozen=True)
class PerStep(Claim):
    """How often something is called in every training step."""

    api: Called
    per: Literal["step"] = field(default="step", init=False)
    times: Times


@dataclass(frozen=True)
class PerRun(Claim):
    """Something is called in every run, on every rank or on any."""

    api: Called
    per: Literal["run"] = field(default="run", init=False)
    times: Literal["some"] = field(default="some", init=False)
    ranks: Literal["any"] | None = None


@dataclass(frozen=True)
class PerBackward(Claim):
    """No more than one optimizer steps after each backward pass."""

    api: Literal["torch.optim.Optimizer.step"] = field(default=STEP, init=False)
    per: Literal["backward"] = field(default="backward", init=False)
    times: Literal["at most once"] = field(default="at most once", init=False)


class Count:
    """An API is called once, or at least once, in every training step; or at least once in every run.

    A call that vanished is a violation here, where rules about the call itself would only not be triggered.
    """

    name = "Count"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (PerStep, PerRun, PerBackward)

    def layer(self, claim: PerStep | PerRun | PerBackward) -> int:
        return 1

    def meaning(self, rule: Invariant[PerStep | PerRun | PerBackward]) -> Meaning:
        called = rule.claim.api if isinstance(rule.claim, (PerStep, PerRun)) else Called(rule.claim.api)
        brings = {Change.LENGTH, Change.WINDOWS} if rule.subject.endswith(".step") else {Change.LENGTH}
        return Meaning(
            place_of_call(rule.subject),
            brings=frozenset(brings),
            comes_with=frozenset({Change.WINDOWS, Change.LOOP}),
            model=called.model,
            evaluates=called.stage == "eval",
            per_run=isinstance(rule.claim, PerRun),
            excuse=Excuse.ALL_RESULTS,
            shown_by=shown_by(called),
            acts="" if called.api == FORWARD else called.api,
            # A mask may as well be multiplied, added, chosen by or put to `torch.where`.
            in_other_words=called.api == vocabulary.MASKING,
            words=Words(names=("step",) if rule.subject == STEP else ()),
        )

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            for called, rows in sorted(counted(process).items()):
                if not len(rows) or said_otherwise(process, called):
                    continue
                api = called.api
                exact = (
                    not api.startswith(FORWARD)
                    and not vocabulary.trains_ranks(api)
                    and api not in vocabulary.LAYER_FUNCTIONS
                    and api != vocabulary.MASKING
                )
                alternatives: tuple[Times, ...] = ("once", "some") if exact else ("some",)
                scaled = bool(len(process.rows_of_type("scaler")))
                if api.endswith(RESTORE) or (scaled and not exact):
                    alternatives, exact = (), False
                scope = Scope.PINNED if called.owner or api.startswith(FORWARD) else Scope.TRANSFERABLE
                family = f"count {called}"
                for times in alternatives:
                    claim = PerStep(called, times)
                    yield Hypothesis(self.name, api, claim, Kind.BEHAVIOUR, scope, family=family)
                if scaled or steps_optimizer(process, called):
                    # Where no step is taken, or a scaler skips every one, there is none to count in.
                    family = f"{family} in a run"
                # What must come up in a run depends on how long the run is.
                every = Hypothesis(self.name, api, PerRun(called), Kind.BEHAVIOUR, Scope.PINNED, family=family)
                yield every
                if len(run.processes) > 1:
                    # Evaluation and checkpoints are the work of one rank, as a rule.
                    on_any = PerRun(called, ANY)
                    yield Hypothesis(
                        self.name, api, on_any, Kind.BEHAVIOUR, Scope.PINNED, family=family, implied_by=every.key
                    )
                if exact and _at_most_once(process, rows, api):
                    once = Hypothesis(self.name, api, PerStep(called, "once"))
                    limit = PerStep(called, "at most once")
                    yield Hypothesis(self.name, api, limit, Kind.BEHAVIOUR, scope, implied_by=once.key)
            if len({step.optimizer for step in process.steps}) > 1:
                yield Hypothesis(self.name, STEP, PerBackward())

    def examples(self, claim: PerStep | PerRun | PerBackward, run: Run) -> Examples:
        if isinstance(claim, PerBackward):
            return Examples.concatenate(
                [_per_backward(process, number) for number, process in enumerate(run.processes)]
            )
        if claim.api.api in vocabulary.WAITING:
            return EMPTY
        if isinstance(claim, PerRun) and claim.ranks == ANY:
            return _by_any_rank(run, claim.api)
        parts = []
        for position, process in enumerate(run.processes):
            if _hidden(process, claim.api.api):
                continue
            rows = _in_run(process, claim) if isinstance(claim, PerRun) else counted(process).get(claim.api, _NOWHERE)
            parts.append(
                _per_run(process, position, rows)
                if isinstance(claim, PerRun)
                else _per_step(process, position, rows, claim.api.api, claim.times)
            )
        return Examples.concatenate(parts)

    def sentence(self, claim: PerStep | PerRun | PerBackward, subject: str, when: str) -> str:
        if isinstance(claim, PerBackward):
            return f"After a backward pass only one optimizer steps{when}."
        place = "every run" if claim.per == "run" else "every training step"
        code = _spoken(claim)
        where = ", by at least one rank" if isinstance(claim, PerRun) and claim.ranks == ANY else ""
        return f"{code[0].upper() + code[1:]} is called {TIMES[claim.times]} in {place}{where}{when}."

    def finding(
        self, invariant: Invariant[PerStep | PerRun | PerBackward], run: Run, examples: Examples, broken: Ints
    ) -> Finding:
        claim = invariant.claim
        if isinstance(claim, PerBackward):
            seen = examples.observed[int(broken[0])] if examples.observed is not None else "several"
            return Finding(
                f"In the golden run only one optimizer stepped after each backward pass; in the candidate {seen} step "
                "after the same one, so a step also updates the parameters of another model.",
                "only one optimizer steps after each backward pass",
                f"after one backward pass {seen} step",
                value=seen,
                deviation=Deviation.EXTRA,
            )
        api = claim.api.api
        place = "run" if claim.per == "run" else "training step"
        if api == BACKWARD and claim.times != "some" and examples.observed is not None:
            seen = examples.observed[int(broken[0])]
            if seen in OFTEN:
                return Finding(
                    "The golden run took an optimizer step after every backward pass; in the candidate `backward` "
                    f"runs {seen} before step {_step(run, examples, broken)}: an optimizer step is missing, or a "
                    "backward pass was added.",
                    f"called {TIMES[claim.times]} in every {place}",
                    f"called {seen}",
                    value=seen,
                    deviation=Deviation.TOO_OFTEN,
                )
        never = not any(len(_in_run(process, PerRun(claim.api))) for process in run.processes)
        seen = "never" if never else (examples.observed[int(broken[0])] if examples.observed is not None else "never")
        if (
            never
            and api.endswith(".forward")
            and vocabulary.trains_ranks(api)
            and any(len(p.entry_rows) for p in run.processes)
        ):
            return Finding(
                f"{claim.api.code} was called in every {_of_golden(place)}; the candidate calls the raw module instead "
                "of its wrapper.",
                f"called {TIMES[claim.times]} in every {place}",
                "never called: the wrapped module is called directly",
                deviation=Deviation.NEVER,
            )
        often = f"called {TIMES[claim.times]} in every"
        golden = f"{often} {place}"
        code = _spoken(claim)
        if never and _is_step(api) and _is_scaled(run):
            return Finding(
                f"{code} was {often} {_of_golden(place)}; the candidate never calls it: `torch.amp.GradScaler` skips "
                "every step, as it does while scaled gradients overflow.",
                golden,
                "never called: every step is skipped",
                deviation=Deviation.NEVER,
            )
        step = _step(run, examples, broken)
        now = f"does not call it in step {step}" if seen == "never" else f"calls it {seen} in step {step}"
        there = "not called in this step" if seen == "never" else f"called {seen}"
        if seen == "never" and not never and (instead := _instead(claim.api, run, examples, broken)):
            return Finding(
                f"{code[0].upper() + code[1:]} was {often} {_of_golden(place)}; the candidate calls it {instead}.",
                golden,
                f"called {instead}",
                value=seen,
                deviation=Deviation.LEFT_OUT,
            )
        return Finding(
            f"{code[0].upper() + code[1:]} was {often} {_of_golden(place)}; the candidate "
            f"{'never calls it' if never else now}.",
            golden,
            "never called" if never else there,
            value=seen,
            deviation=Deviation.NEVER if never else _deviation(seen),
        )


def shown_by(called: Called) -> Evidence:
    """What shows that calls are gone, where they are there to move something in training, or to evaluate."""
    api = called.api
    if api == FORWARD and called.stage == "eval":
        return Evidence.EVALUATED
    if vocabulary.trains_ranks(api) or called.stage not in ("", "train"):
        return Evidence.NONE
    if api == _LOADS:
        # What was loaded for an evaluation shows in no step.
        return Evidence.SEEN
    return {
        Place.SCHEDULING: Evidence.PACED,
        Place.AVERAGING: Evidence.COPIED,
        Place.PREPARATION: Evidence.TRAINED,
        Place.FORWARD: Evidence.TRAINED if api == FORWARD else Evidence.NONE,
    }.get(place_of_call(api), Evidence.TRAINED if api.endswith("zero_grad") or _is_step(api) else Evidence.NONE)


def _instead(called: Called, run: Run, examples: Examples, broken: Ints) -> str:
    """Where a call that is made around the steps is made instead, see `moved_to`."""
    first = int(broken[0])
    process = run.processes[int(examples.process[first])]
    rows = counted(process).get(called, np.empty(0, dtype=np.int64))
    rows = rows[process.type_codes.isin(_AROUND_STEPS)[rows]]
    gradients = process.type_codes.isin(GRADIENT_TYPES)[rows].all()
    return moved_to(process, rows, process.step_number(int(examples.row[first])), on_gradients=bool(gradients))


def _deviation(seen: str) -> Deviation:
    if seen == "never":
        return Deviation.LEFT_OUT
    return Deviation.TOO_OFTEN if seen in OFTEN else Deviation.DIFFERENT


def _is_step(api: str) -> bool:
    return api.endswith(".step") and ".lr_scheduler." not in api and not api.endswith("GradScaler.step")


def _is_scaled(run: Run) -> bool:
    """Whether a gradient scaler is asked to take the steps."""
    return any(
        process.api[int(row)].endswith("GradScaler.step")
        for process in run.processes
        for row in process.rows_of_type("scaler")
    )


def _spoken(claim: PerStep | PerRun) -> str:
    """What is counted, as a sentence has it. A target network or a teacher is called in every training step: that is
    no evaluation to whoever reads it.
    """
    if isinstance(claim, PerStep) and claim.api.model and claim.api.stage == "eval":
        return f"`{claim.api.api}` of `{claim.api.owner}`, not to train it,"
    return claim.api.code


def _step(run: Run, examples: Examples, broken: Ints) -> int:
    first = int(broken[0])
    return run.processes[int(examples.process[first])].step_number(int(examples.row[first]))


def _of_golden(place: str) -> str:
    """The place of a count, as a sentence about the golden run has it."""
    return "golden run" if place == "run" else f"{place} of the golden run"


def _window_counts(process: Process, rows: Ints) -> Ints:
    return np.bincount(np.minimum(process.window[rows], process.windows), minlength=process.windows + 1)[
        : process.windows
    ]


def _at_most_once(process: Process, rows: Ints, api: str) -> bool:
    counts = _window_counts(process, rows)
    # One call says little, but that of a scheduler, which a short run sees once, after its first epoch.
    least = 1 if ".lr_scheduler." in api else 2
    return bool(len(counts)) and int(counts.max()) == 1 and int(counts.sum()) >= least


def _step_rows(process: Process) -> Ints:
    return np.array([step.row for step in process.lead_steps], dtype=np.int64)


def _per_step(process: Process, position: int, rows: Ints, api: str, times: str) -> Examples:
    counts = _window_counts(process, rows)
    if api == BACKWARD and times != "some":
        # Two losses with parameters of their own may go backward apart or in one sum: what counts is each gradient.
        counts = np.where(counts > 0, np.maximum(Gradients.of(process).passes_per_window, 1), 0)
    holds = {"once": counts == 1, "some": counts >= 1, "at most once": counts <= 1}[times]
    later_windows = np.array(later(process).windows, dtype=np.int64)
    left_out = np.concatenate([skipped_windows(process), handed_over(process, rows), later_windows])
    whole = np.setdiff1d(np.arange(process.windows), left_out)
    holds, counts = holds[whole], counts[whole]
    anchors = _step_rows(process)[whole]
    context = step_context(process, anchors)
    del context["optimizer"]  # The window belongs to the iteration, not to one optimizer.
    return Examples(
        holds,
        np.full(len(holds), position),
        anchors,
        np.zeros(len(holds), dtype=np.int64),
        context,
        Labels.of(np.minimum(counts, 3), ("never", "once", "twice", "many times")),
    )


def _per_run(process: Process, position: int, rows: Ints) -> Examples:
    anchors = _step_rows(process)
    if not len(anchors):
        anchors = np.zeros(1, dtype=np.int64)
    return Examples(
        np.array([len(rows) > 0]),
        np.array([position]),
        anchors[:1],
        np.zeros(1, dtype=np.int64),
        {"rank": rank_label(process, 1)},
        Labels.of(np.array([min(len(rows), 1)]), ("never", "at least once")),
    )


def _in_run(process: Process, claim: PerRun) -> Ints:
    """Calls of what a run calls somewhere. One that is counted nowhere may have moved to where nothing is counted."""
    rows = counted(process).get(claim.api, _NOWHERE)
    if len(rows) or claim.api.owner or claim.api.stage:
        return rows
    calls = process.rows_of_type("collective", "observed")
    return calls[process.api.isin([claim.api.api])[calls]]


def _by_any_rank(run: Run, called: Called) -> Examples:
    """A single example for a run of several ranks, in the first one."""
    if len(run.processes) < 2 or any(_hidden(process, called.api) for process in run.processes):
        return EMPTY
    rows = [_in_run(process, PerRun(called)) for process in run.processes]
    example = _per_run(run.processes[0], 0, np.concatenate(rows))
    return replace(example, context={})


def _hidden(process: Process, api: str) -> bool:
    """Whether calls of an API may be within a compiled model, where nobody sees them."""
    inside = api in vocabulary.LAYER_FUNCTIONS or api == vocabulary.MASKING or api in process.for_plug_ins
    return inside and vocabulary.is_compiled(process)


def _per_backward(process: Process, position: int) -> Examples:
    """One example for each backward pass that a step follows before the next: how many optimizers step, and which."""
    events = process.events
    backward = process.rows_of_type("autograd")
    backward = backward[~process.inside("autograd", "optimizer")[backward]]
    begins = events["seq"][backward].astype(np.int64)
    stepped: dict[int, list[OptimizerStep]] = {}
    for step in process.steps:
        index = int(np.searchsorted(begins, step.begin)) - 1
        if index >= 0:
            stepped.setdefault(index, []).append(step)
    groups = list(stepped.values())
    names = process.names.optimizers
    distinct = [sorted({names[step.optimizer] for step in steps}) for steps in groups]
    rows = np.array([steps[-1].row for steps in groups], dtype=np.int64)
    texts = [" and ".join(f"`{name}`" for name in labels) for labels in distinct]
    return Examples(
        np.array([len(labels) <= 1 for labels in distinct], dtype=bool),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"first_step": Labels.flags(process.window[rows] == 0), "rank": rank_label(process, len(rows))},
        Labels.of(np.arange(len(texts)), texts),
    )
