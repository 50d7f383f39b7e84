"""The steps behind those that are recorded call by call: the first that gives something else than golden's did.

Here nothing is allowed for rounding in what is given: as long as parameters, inputs and random states are golden's to
the last bit, a loss, a gradient or an update owes golden's numbers. Where they are other ones by no more than rounding,
or the runs were not the same before, nothing is claimed from there on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pytest_traincheck.golden.recording import EVALUATION, PHASE, Recording
from pytest_traincheck.golden.step_log import Step, StepLog
from pytest_traincheck.replay.tolerance import EPSILON, allowance, passed_on

LATER = "later"
"""What a claim is about that speaks of such a step."""
INPUT, BATCH, LOSS, GRADIENT, UPDATE = "input", "batch", "loss", "gradient", "update"
"""What of a step is not golden's."""

_SAME_WEIGHT = 1e-6
"""Relative distance of weights that two ways to compute them may give in single precision."""
_CALLS = 64
"""Calls that the tolerance of what a whole step computes allows for."""


@dataclass(frozen=True)
class Weighed:
    """What terms of a loss are multiplied by, in golden's step and in the candidate's, of how many terms."""

    pairs: tuple[tuple[float, float], ...]
    terms: int


@dataclass(frozen=True)
class Later:
    """One step that was given what golden's was, and whether it left the same; `what` says where it did not."""

    number: int
    holds: bool = True
    what: str = ""
    names: tuple[str, ...] = ()
    """Parameters that have other gradients or other values; of a loss, what is not trained and has other values; of an
    input, the models.
    """
    off: float = 0.0
    allowed: float = 0.0
    values: tuple[float, float] | None = None
    """Golden's number and the candidate's."""
    since: int = -1
    """Of a loss: the training step before which what is not trained had other values first."""
    function: str = ""
    """Of a loss: what returned another number first."""
    same: tuple[str, ...] = ()
    """Of a loss: the functions that returned one number, where all of them returned golden's."""
    weighed: Weighed | None = None
    """Of a loss: the weights of its terms, where these are not the same."""

    @property
    def of_backward(self) -> bool:
        """Whether it shows at the backward pass already."""
        return self.what in (INPUT, BATCH, LOSS, GRADIENT)


ROUNDS: Final = "round otherwise"
"""Why steps are not held against golden's whose numbers are off by no more than rounding makes them."""


@dataclass(frozen=True)
class Course:
    """What was found of a process: the steps that could be held against golden's, of how many, and why no others."""

    steps: tuple[Later, ...]
    known: int
    lost: str = ""


def sketched(golden: Recording, process: int) -> int:
    """How many training steps of a process are recorded call by call from its beginning on."""
    calls = golden.calls[golden.calls["process"] == process]
    marks = [number for number, text in enumerate(golden.strings) if text in (PHASE, EVALUATION)]
    again = golden.sketches[(golden.sketches["process"] == process) & np.isin(golden.sketches["slot"], marks)]["at"]
    kind = golden.strings.index("optimizer") if "optimizer" in golden.strings else -1
    steps = calls[(calls["kind"] == kind) & (calls["end"] < (again.min() if len(again) else np.inf))]
    return int(steps["window"].max()) + 1 if len(steps) else 0


def later(golden: StepLog, candidate: StepLog, first: int, autocast: Sequence[str] = ()) -> Course:
    """Hold the steps of one process against golden's. Of those before training step `first` nothing is claimed.

    `autocast` are the dtypes that golden's calls were cast to.
    """
    known = sum(step.window >= first for step in golden.steps)
    sides = _Sides(golden, candidate)
    if not sides.same_names:
        return Course((), known, "name their parameters otherwise" if sides.same_values else "train other parameters")
    eps = max([EPSILON["float32"], *(EPSILON.get(dtype, 0.0) for dtype in autocast)])
    walk = _Walk(sides, allowance(eps, _CALLS, _CALLS))
    found: list[Later] = []
    for number in range(min(len(sides.golden), len(sides.candidate))):
        step, why = walk.step(number)
        if step is None:
            return Course(tuple(found), known, why)
        if sides.golden[number].window >= first:
            found.append(step)
        if not step.holds:
            return Course(tuple(found), known, "came behind what differs")
    return Course(tuple(found), known, "were not made" if len(sides.candidate) < len(sides.golden) else "")


class _Sides:
    """Two logs, with the variables that both have."""

    def __init__(self, golden: StepLog, candidate: StepLog) -> None:
        self.golden, self.candidate = golden.steps, candidate.steps
        mine = {name: place for place, name in enumerate((*golden.trained, *golden.others))}
        theirs = {name: place for place, name in enumerate((*candidate.trained, *candidate.others))}
        gradients = {name: place for place, name in enumerate(candidate.trained)}
        self.same_names = all(name in gradients for name in golden.trained)
        begins = [sorted(log.values[0, : len(log.trained)].tolist()) for log in (golden, candidate)]
        self.same_values = begins[0] == begins[1] and any(begins[0])
        """Whether what is trained begins with the same values on both sides, under whatever names."""
        self.trained = golden.trained if self.same_names else ()
        self.others = tuple(name for name in golden.others if name in theirs)
        names = (*self.trained, *self.others)
        self._differ = (
            golden.values[: len(candidate.values), [mine[name] for name in names]]
            != (candidate.values[: len(golden.values), [theirs[name] for name in names]])
        )
        count = min(len(golden.steps), len(candidate.steps))
        chosen = [gradients[name] for name in self.trained]
        self._gradients_differ = golden.gradients[:count, : len(chosen)] != candidate.gradients[:count, chosen]
        states: dict[str, set[str]] = {}
        for step in golden.steps:
            for name, state in step.random.items():
                states.setdefault(name, set()).add(state)
        self.generators = tuple(name for name, found in sorted(states.items()) if len(found) > 1)

    def trained_apart(self, number: int) -> tuple[str, ...]:
        """What is trained and has other values before a step."""
        return _chosen(self.trained, self._differ[number, : len(self.trained)])

    def others_apart(self, number: int) -> tuple[str, ...]:
        """What is not trained and has other values before a step."""
        return _chosen(self.others, self._differ[number, len(self.trained) :])

    def gradients_apart(self, number: int) -> tuple[str, ...]:
        """What a step uses other gradients of."""
        return _chosen(self.trained, self._gradients_differ[number])

    def drew_alike(self, number: int) -> bool:
        """Whether the generators that golden draws from have golden's states before a step."""
        ours, theirs = self.golden[number].random, self.candidate[number].random
        return all(name in ours and ours[name] == theirs.get(name) for name in self.generators)


def _chosen(names: Sequence[str], mask: np.ndarray) -> tuple[str, ...]:
    return tuple(names[place] for place in np.flatnonzero(mask).tolist())


class _Walk:
    """Goes from step to step as long as they are golden's."""

    def __init__(self, sides: _Sides, allowed: float) -> None:
        self._sides = sides
        self._allowed = allowed
        self._since = -1
        self._fed: set[str] = set()
        """Models that were given what golden's were in some step, by the same name or another one."""

    def step(self, number: int) -> tuple[Later | None, str]:
        """What one step shows; None with the reason where it owes nothing."""
        sides = self._sides
        ours, theirs = sides.golden[number], sides.candidate[number]
        if ours.optimizer != theirs.optimizer:
            return None, "are made by another optimizer"
        if sides.trained_apart(number):
            return None, "begin with other parameters"
        if not sides.drew_alike(number):
            return None, "drew other random numbers"
        if self._since < 0 and sides.others_apart(number):
            self._since = theirs.window
        other = sorted({hashed for _, hashed in ours.inputs} - {hashed for _, hashed in theirs.inputs})
        if other:
            return self._given(number, tuple(dict.fromkeys(name for name, hashed in ours.inputs if hashed in other)))
        self._fed.update(name for name, _ in ours.inputs)
        if len(ours.losses) == len(theirs.losses):
            loss = self._loss(number)
            if loss is not None:
                return loss, ""
            if ours.losses != theirs.losses:
                return None, ROUNDS
        names = sides.gradients_apart(number)
        if names:
            off, values = _apart(ours.norm, theirs.norm), (ours.norm, theirs.norm)
            if off > self._allowed:
                return Later(number, False, GRADIENT, names, off, self._allowed, values), ""
            return None, ROUNDS
        moved = sides.trained_apart(number + 1)
        if moved and ours.rates != theirs.rates:
            return None, "have other learning rates"
        return self._update(number, moved) if moved else (Later(number), "")

    def _given(self, number: int, names: tuple[str, ...]) -> tuple[Later | None, str]:
        """A step in which models are given something else. One that was never given what golden's was may begin
        elsewhere: what the loop did with its inputs, the model does now, or the other way round.
        """
        ours, theirs = self._sides.golden[number], self._sides.candidate[number]
        if len(ours.inputs) != len(theirs.inputs):
            return None, "call models more or less often"
        if not self._fed.issuperset(names):
            return None, "call models that begin elsewhere"
        if ours.batches == theirs.batches:
            return Later(number, False, INPUT, names), ""
        if ours.batches and len(ours.batches) == len(theirs.batches):
            return Later(number, False, BATCH, names), ""
        return None, "take more or fewer batches"

    def _loss(self, number: int) -> Later | None:
        """A backward pass that starts from a number that rounding does not explain."""
        ours, theirs = self._sides.golden[number], self._sides.candidate[number]
        off = [_apart(*pair) for pair in zip(ours.losses, theirs.losses, strict=True)]
        if not off or max(off) <= self._allowed:
            return None
        place = off.index(max(off))
        buffers = self._sides.others_apart(number)
        return Later(
            number,
            False,
            LOSS,
            buffers,
            off[place],
            self._allowed,
            (ours.losses[place], theirs.losses[place]),
            self._since if buffers else -1,
            _first_other(ours, theirs),
            tuple(dict.fromkeys(name for name, _ in ours.computed)) if ours.computed == theirs.computed else (),
            weighed(ours, theirs),
        )

    def _update(self, number: int, names: tuple[str, ...]) -> tuple[Later | None, str]:
        """An update that left other values. How far off these are nobody has seen: the losses of the next step tell,
        where they are further off than rounding would make them.
        """
        sides, allowed = self._sides, passed_on(self._allowed)
        if number + 1 < min(len(sides.golden), len(sides.candidate)) and sides.drew_alike(number + 1):
            ours, theirs = sides.golden[number + 1], sides.candidate[number + 1]
            if ours.inputs == theirs.inputs and ours.losses and len(ours.losses) == len(theirs.losses):
                off = max(_apart(*pair) for pair in zip(ours.losses, theirs.losses, strict=True))
                if off > allowed:
                    return Later(number, False, UPDATE, names, off, allowed), ""
        return None, ROUNDS


def weighed(ours: Step, theirs: Step) -> Weighed | None:
    """The weights of terms, where a step of golden's and of the candidate's have other ones; None where they have other
    numbers of terms, or the same weights in another order.
    """
    golden = ours.weights or (1.0,) * len(theirs.weights)
    candidate = theirs.weights or (1.0,) * len(ours.weights)
    if len(golden) != len(candidate) or not _unlike(sorted(golden), sorted(candidate)):
        return None
    return Weighed(tuple(_unlike(golden, candidate)), len(golden))


def _unlike(golden: Sequence[float], candidate: Sequence[float]) -> list[tuple[float, float]]:
    return [pair for pair in zip(golden, candidate, strict=True) if _apart(*pair) > _SAME_WEIGHT]


def _first_other(ours: Step, theirs: Step) -> str:
    """The first function that returned another number, where both sides called the same ones."""
    if [name for name, _ in ours.computed] != [name for name, _ in theirs.computed]:
        return ""
    pairs = zip(ours.computed, theirs.computed, strict=True)
    return next((name for (name, mine), (_, other) in pairs if mine != other), "")


def _apart(mine: float, theirs: float) -> float:
    """Relative distance; infinite where one of both is no finite number."""
    if mine == theirs or (math.isnan(mine) and math.isnan(theirs)):
        return 0.0
    if not (math.isfinite(mine) and math.isfinite(theirs)):
        return math.inf
    return abs(mine - theirs) / max(abs(mine), abs(theirs))
