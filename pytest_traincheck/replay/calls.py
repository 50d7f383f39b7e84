"""Calls of modules and functions: which got the same, and of those, which gave something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from pytest_traincheck.golden.recording import TRAINING
from pytest_traincheck.replay.align import aligned
from pytest_traincheck.replay.computed import INFINITE, Call, Computed, Tensor, apart
from pytest_traincheck.replay.draws import Times, first_step, same_beginning, same_draws
from pytest_traincheck.replay.passed_on import weighs_otherwise
from pytest_traincheck.replay.tolerance import COARSE, agreement, allowance, epsilon, passed_on

SCORES = "scores"
"""What of a module is not golden's where its result does not show it."""
RANDOM, BEGINNING = "random", "beginning"
"""Why a result owes nothing: other random numbers are drawn for it, or may have been before the first step."""


class Status(Enum):
    """What became of a call of golden."""

    SAME = "same"
    DRIFTED = "drifted"
    DEVIATES = "deviates"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class Compared:
    """One golden call and its counterpart. `given` and `off` are relative distances of inputs and results.

    `why` says for a call that cannot be compared what it was that differs: a slot, a variable, `arguments`, `random`,
    `beginning` where other numbers were drawn before the first step, and the module may hold some of them;
    and of a module that deviates that it is not the result (`scores`): then `off` is about that.
    """

    golden: Call
    candidate: Call
    status: Status
    given: float = 0.0
    off: float = 0.0
    allowed: float = 0.0
    why: str = ""
    parts: tuple[str, ...] = ()
    """Of a result of several tensors, of which some are golden's: the others, by their slots."""


def _pure(call: Call) -> bool:
    """Whether all that a call computes with is known: a function or a module of torch's holds nothing of its own."""
    return call.kind == "function" or (call.kind == "module" and call.name.startswith("torch.nn."))


class Calls:
    """The comparison of two processes, call by call."""

    def __init__(
        self, golden: Computed, candidate: Computed, platform: str = "", workers: bool = False, repeated: bool = False
    ) -> None:
        self.golden = golden
        self.candidate = candidate
        self.workers = workers
        """Whether worker processes made batches of the candidate."""
        self.repeated = repeated
        """Whether it is known which batches of golden's workers come again."""
        self._platform = platform
        self._variable_distance: dict[tuple[int, int], float] = {}
        self._below: dict[tuple[str, int, int, bool], tuple[float, str]] = {}

    @cached_property
    def pairs(self) -> Mapping[int, int]:
        return aligned(self.golden, self.candidate)

    @cached_property
    def compared(self) -> Mapping[int, Compared]:
        """Golden call -> comparison, for the modules and functions that have a counterpart."""
        found = {
            call: self._compare(self.golden.calls[call], self.candidate.calls[other])
            for call, other in self.pairs.items()
            if self.golden.calls[call].kind in ("module", "function", "collective")
        }
        for item in list(found.values()):
            around = found.get(item.golden.parent)
            if item.why and around is not None and (hidden := self._hidden(around, item)) is not None:
                found[item.golden.parent] = hidden
        return found

    @cached_property
    def roots(self) -> tuple[Compared, ...]:
        """Calls that deviate and have no call within them that does, in order of time."""
        deviating = {call for call, found in self.compared.items() if found.status is Status.DEVIATES}
        explained: set[int] = set()
        for call in deviating:
            parent = self.golden.calls[call].parent
            while parent >= 0:
                explained.add(parent)
                parent = self.golden.calls[parent].parent
        found = [self.compared[call] for call in deviating - explained]
        return tuple(sorted(found, key=lambda item: item.golden.end))

    # one call

    def _compare(self, golden: Call, candidate: Call) -> Compared:
        ours, theirs = self.golden, self.candidate
        eps = self.precision[golden.index]
        given, why = self.inputs_apart(golden, candidate)
        if why:
            return Compared(golden, candidate, Status.NOT_COMPARABLE, given, why=why)
        results, others = ours.results.get(golden.index, {}), theirs.results.get(candidate.index, {})
        if not results or results.keys() != others.keys():
            return Compared(golden, candidate, Status.NOT_COMPARABLE, given, why="result")
        if any(results[slot].shape != others[slot].shape for slot in results):
            return Compared(golden, candidate, Status.NOT_COMPARABLE, given, why="result")
        each = {slot: apart(results[slot], others[slot]) for slot in results}
        off = max(each.values())
        allowed = allowance(eps, self._terms[golden.index], self._inside[golden.index]) + passed_on(given)
        status = Status.SAME if off == 0 else Status.DRIFTED if off <= allowed else Status.DEVIATES
        if status is Status.DEVIATES and (why := self._owes_nothing(golden, candidate)):
            return Compared(golden, candidate, Status.NOT_COMPARABLE, given, why=why)
        parts = tuple(slot for slot, distance in each.items() if distance > allowed)
        return Compared(golden, candidate, status, given, off, allowed, parts=parts if len(parts) < len(each) else ())

    def _hidden(self, around: Compared, within: Compared) -> Compared | None:
        """The comparison of a module whose result, rounded to few digits, does not show that it weighs otherwise."""
        eps = self.precision[around.golden.index]
        if around.status is not Status.DRIFTED or around.golden.kind != "module" or eps <= COARSE:
            return None
        pair = within.golden, within.candidate
        apart = weighs_otherwise((self.golden, self.candidate), pair, eps, self.limit(within.golden.index))
        if apart is None or self._owes_nothing(around.golden, around.candidate):
            return None
        return replace(around, status=Status.DEVIATES, off=apart[0], allowed=apart[1], why=SCORES)

    def inputs_apart(self, golden: Call, candidate: Call) -> tuple[float, str]:
        """Relative distance of what both were given, and what of it is not the same (empty: all of it is)."""
        ours = self.golden.inputs.get(golden.index, {})
        theirs = self.candidate.inputs.get(candidate.index, {})
        if ours.keys() != theirs.keys():
            return INFINITE, "arguments"
        if golden.arguments != candidate.arguments:
            return INFINITE, "arguments"
        given = 0.0
        for slot, tensor in ours.items():
            off = apart(tensor, theirs[slot]) if tensor.dtype == theirs[slot].dtype else INFINITE
            if off > self.limit(golden.index):
                return off, slot.removeprefix("in.")
            given = max(given, off)
        if golden.kind == "module":
            off, name = self.variables_apart(golden.module, golden, candidate)
            if off > self.limit(golden.index):
                return off, name
            given = max(given, off)
        return given, ""

    def _owes_nothing(self, golden: Call, candidate: Call) -> str:
        """Why a result that is not golden's cannot be blamed on the code; empty where it can."""
        if not self.same_draws((golden.begin, candidate.begin), (golden.end, candidate.end)):
            return RANDOM
        return "" if self.same_beginning or self._holds_nothing(golden) else BEGINNING

    def _holds_nothing(self, golden: Call) -> bool:
        children = (self.golden.calls[child] for child in self.golden.children.get(golden.index, []))
        return _pure(golden) and all(child.kind != "module" for child in children)

    def limit(self, call: int) -> float:
        """Relative distance up to which the inputs of a golden call count as the same."""
        return agreement(self.precision[call])

    def variables_apart(self, module: str, golden: Call, candidate: Call) -> tuple[float, str]:
        """The largest distance of a parameter or buffer of a module that it reads, and its name."""
        training = bool(golden.flags & TRAINING)
        inside, other = self.golden.inside(golden), self.candidate.inside(candidate)
        epochs = self.golden.epoch(inside), self.candidate.epoch(other)
        key = (module, *epochs, training)
        if key not in self._below:
            worst, name = 0.0, ""
            for kind, variable in self.golden.below(module):
                if training and variable in self.golden.moving_buffers:
                    continue
                off = self.variable_apart(kind, variable, inside, other)
                if off > worst:
                    worst, name = off, variable
            self._below[key] = worst, name
        return self._below[key]

    def variable_apart(self, kind: str, name: str, at: float, other: float) -> float:
        """Distance of the values of a variable at a time of golden and one of the candidate; 0 if golden has none.

        A buffer that the candidate does not have at all is part of how the program computes, as a mask that it now
        makes anew, and not of what it is given.
        """
        value = self.golden.value(kind, name, at)
        if value is None or (kind == "buffer" and (kind, name) not in self.candidate.values):
            return 0.0
        counterpart = self.candidate.value(kind, name, other)
        if counterpart is None:
            return INFINITE
        key = (value.index, counterpart.index)
        if key not in self._variable_distance:
            self._variable_distance[key] = apart(value, counterpart)
        return self._variable_distance[key]

    def same_draws(self, after: Times, until: Times, *, fetched: bool = True) -> bool:
        """Whether both drew the same random numbers in an interval."""
        return same_draws(self.golden, self.candidate, after, until, fetched=fetched)

    @cached_property
    def begun(self) -> Times:
        """When the first step began."""
        return first_step(self.golden, self.candidate, dict(self.pairs))

    @cached_property
    def same_beginning(self) -> bool:
        """Whether both drew the same random numbers before the first step."""
        return same_beginning(self.golden, self.candidate, self.begun)

    # what golden's calls are made of

    @cached_property
    def precision(self) -> Mapping[int, float]:
        """The coarsest rounding unit in each golden call and whatever is called within it."""
        found: dict[int, float] = {}
        for call in reversed(self.golden.calls.values()):
            own = [epsilon(call.autocast, self._platform), found.get(call.index, 0.0)]
            own += [epsilon(tensor.dtype, self._platform) for tensor in self._tensors(call)]
            found[call.index] = max(own)
            if call.parent >= 0:
                found[call.parent] = max(found.get(call.parent, 0.0), found[call.index])
        return {call: eps or epsilon("float32", self._platform) for call, eps in found.items()}

    @cached_property
    def _terms(self) -> Mapping[int, float]:
        """The longest sum in each golden call, judged by the sizes of its inputs and results."""
        found: dict[int, float] = {}
        for call in reversed(self.golden.calls.values()):
            sizes = sorted((tensor.size for tensor in self.golden.inputs.get(call.index, {}).values()), reverse=True)
            result = max([tensor.size for tensor in self.golden.results.get(call.index, {}).values()], default=1) or 1
            product = (sizes[0] * sizes[1] / result) ** 0.5 if len(sizes) > 1 else 1.0
            own = max(product, sizes[0] / result if sizes else 1.0, found.get(call.index, 1.0))
            found[call.index] = own
            if call.parent >= 0:
                found[call.parent] = max(found.get(call.parent, 1.0), own)
        return found

    @cached_property
    def _inside(self) -> Mapping[int, int]:
        """How many calls each golden call has within it."""
        found = dict.fromkeys(self.golden.calls, 0)
        for call in reversed(self.golden.calls.values()):
            if call.parent >= 0:
                found[call.parent] += 1 + found[call.index]
        return found

    def _tensors(self, call: Call) -> list[Tensor]:
        inputs, results = self.golden.inputs, self.golden.results
        return [*inputs.get(call.index, {}).values(), *results.get(call.index, {}).values()]
