"""A training step as one call: what flows through it between the calls of modules and functions.

What a step is given are its batches, the parameters and the random state; what it gives are, in this order, the
losses that `backward` gets, the gradients after it, after unscaling, after clipping and before the step, the update of
each parameter, and every other tracked variable. Each is looked at where everything before it was golden's.

Where other random numbers were drawn, what agrees is golden's all the same, and the walk goes on behind it. What does
not agree owes nothing then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from pytest_traincheck.golden.recording import ENTRY
from pytest_traincheck.optimizer_label import BY_HAND, models_in
from pytest_traincheck.replay.batches import paired_batches
from pytest_traincheck.replay.calls import Calls
from pytest_traincheck.replay.computed import (
    INFINITE,
    Call,
    Computed,
    Tensor,
    apart,
    are_other_parts,
    moved_apart,
    times,
)
from pytest_traincheck.replay.draws import Times, seeded_alike
from pytest_traincheck.replay.given import batches_apart, given_apart, settled
from pytest_traincheck.replay.gradients import singled_out
from pytest_traincheck.replay.initial import initial_values
from pytest_traincheck.replay.likeness import Likeness
from pytest_traincheck.replay.point import Point
from pytest_traincheck.replay.tolerance import COARSE, agreement, allowance, epsilon, passed_on, passed_on_by_signs

_CALLS = 64
"""Calls that the tolerance of what a whole step computes allows for."""
_CANCELS = 1e-5
"""Part of what its terms are, below which a loss is a difference of them."""
_NOISE = 64
"""Rounding units, of the largest gradient of a model, that the gradient of any other parameter may be off."""
_UPDATED = 8
"""Rounding units of a value that its change may be off."""


class Flow:
    """Walks through the steps of two processes."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._golden = calls.golden
        self._candidate = calls.candidate
        self._likeness = Likeness(calls)
        self._broken = False
        self._drift = 0.0
        """How far apart an update of this step was, of those that are within their tolerance."""
        self._stepped: dict[str, tuple[float, float]] = {}
        """When an optimizer last moved a parameter."""
        self._since: Times = calls.begun
        """Since when draws count for the step that is looked at."""
        self._known: set[str] = set()
        """Optimizers whose every step so far could be compared: their state is golden's."""
        self._astray = not calls.same_beginning
        """Whether other random numbers have been drawn since the generators were set alike: what is made of them may be
        in anything that follows.
        """

    def points(self) -> Iterator[Point]:
        """Everything that can be compared, in order of time; nothing after the first thing that deviates. Behind a step
        that drew otherwise, the next that is given what golden's is.
        """
        if not self._golden.since:
            yield from initial_values(self._golden, self._candidate)
        windows = sorted({call.window for call in self._golden.calls.values() if call.kind == "autograd"})
        comparable = True
        for window in windows:
            if self._broken or not (comparable or self._astray):
                return
            comparable = False
            for point in self._step(window):
                if point is None:
                    break
                yield point
                self._broken = self._broken or not point.holds
                if self._broken:
                    return
            else:
                comparable = True

    # one step

    def _step(self, window: int) -> Iterator[Point | None]:
        """The points of one step in order; None where what follows cannot be compared."""
        start = self._start(window)
        # Noise may be drawn between the first batch and the first forward pass.
        self._since = start if _end_before(self._golden, window) else self._calls.begun
        self._astray = self._astray and not self._seeded_alike(window)
        batches = list(paired_batches(self._calls, self._likeness, window, start))
        if self._astray:
            batches = [point for point in batches if point.holds]
        yield from batches
        if not all(point.holds for point in batches):
            return
        if self._golden.since and window == min(c.window for c in self._golden.calls.values() if c.kind == "autograd"):
            goes_on = self._goes_on(window, start)
            if goes_on is not None:
                yield goes_on
        given = given_apart(self._calls, window, start)
        if given is None:
            yield None
            return
        eps = max([self._calls.precision[n] for n, c in self._golden.calls.items() if c.window == window], default=0.0)
        steps = self._steps_of(window)
        for index in self._events(window):
            golden = self._golden.calls[index]
            counterpart = self._calls.pairs.get(index)
            if golden.kind == "scheduler":
                if counterpart is not None:
                    yield from self._scheduled(golden, self._candidate.calls[counterpart], eps, given)
                continue
            if counterpart is None:
                yield None
                return
            candidate = self._candidate.calls[counterpart]
            until: Times = golden.end, candidate.end
            if golden.kind == "autograd":
                yield self._owed(self._loss(golden, candidate, eps, given), until)
                yield self._owed(self._left(golden, candidate, eps, given), until)
            elif golden.kind == "optimizer":
                yield self._owed(self._gradients(golden, candidate, eps, given), until)
                yield self._update(golden, candidate, given)
                if golden in steps[:-1]:
                    # A critic takes several steps for one of its generator, and may be clamped after each.
                    yield self._variables(golden, candidate, start, until, given)
            elif golden.arguments != candidate.arguments:
                yield None
                return
            else:
                yield self._owed(self._gradients(golden, candidate, eps, given), until)
        counterpart = self._calls.pairs.get(steps[-1].index) if steps else None
        if counterpart is None:
            yield None
            return
        until = _begin_after(self._golden, window), _begin_after(self._candidate, window)
        yield self._variables(steps[-1], self._candidate.calls[counterpart], start, until, given)

    def _seeded_alike(self, window: int) -> bool:
        """Whether both set their generators to the same states in a step before they draw for its loss."""
        backward = next((call for call in self._events(window) if self._golden.calls[call].kind == "autograd"), -1)
        counterpart = self._calls.pairs.get(backward)
        if counterpart is None or not self._calls.same_beginning:
            return False
        until = self._golden.calls[backward].end, self._candidate.calls[counterpart].end
        return seeded_alike(self._golden, self._candidate, self._since, until)

    def _owed(self, point: Point | None, until: Times) -> Point | None:
        """A point that agrees, or that must because the same was drawn up to a time; None for any other."""
        self._astray = self._astray or not self._calls.same_draws(self._since, until, fetched=False)
        return None if point is not None and self._astray and not point.holds else point

    def _start(self, window: int) -> Times:
        """Times of golden and candidate at which a step begins."""
        ours, theirs = _end_before(self._golden, window), _end_before(self._candidate, window)
        return (ours, theirs) if ours else (self._golden.begun, self._candidate.begun)

    def _events(self, window: int) -> list[int]:
        kinds = ("autograd", "optimizer", "clip", "scaler", "scheduler")
        calls = self._golden.calls.values()
        return [
            call.index
            for call in sorted(calls, key=lambda call: call.end)
            if call.window == window and call.kind in kinds and call.name.rpartition(".")[2] != "grad"
            and not call.name.endswith(("GradScaler.step", "GradScaler.update", "GradScaler.scale"))
        ]  # fmt: skip

    def _steps_of(self, window: int) -> list[Call]:
        """Golden's optimizer steps in a window, in order."""
        calls = self._golden.calls.values()
        return sorted((c for c in calls if c.window == window and c.kind == "optimizer"), key=lambda call: call.end)

    def _goes_on(self, window: int, start: tuple[float, float]) -> Point | None:
        """What is not trained (averages, copies, target networks) when sketching begins again with golden's batch and
        golden's values of all that is trained: its values owe nothing to steps that nobody has looked at.
        """
        trained = tuple(f"{root}." for step in self._steps_of(window) for root in models_in(step.optimizer))
        call = min(self._events(window), default=-1)
        counterpart = self._calls.pairs.get(call)
        if not trained or counterpart is None or batches_apart(self._calls, window) is None:
            return None
        at = settled(self._golden, start[0]), settled(self._candidate, start[1])
        excess = {}
        for kind, name in self._golden.values:
            values = self._values(kind, name, at) if kind == "parameter" else None
            if values is None:
                continue
            off, allowed = apart(*values), agreement(epsilon(values[0].dtype) or epsilon("float32"))
            if not name.startswith(trained):
                excess[name] = off, allowed
            elif off > allowed:
                return None
        golden, candidate = self._golden.calls[call], self._candidate.calls[counterpart]
        return _worst("initial", golden, candidate, excess) if excess else None

    # what a step gives

    def _scheduled(self, golden: Call, candidate: Call, eps: float, given: float) -> Iterator[Point]:
        """The numbers that a scheduler is given. Metrics such as an accuracy jump where what they are computed from
        only drifts, so all that came before must be golden's exactly.
        """
        ours = self._golden.inputs.get(golden.index, {})
        theirs = self._candidate.inputs.get(candidate.index, {})
        if not ours or ours.keys() != theirs.keys() or given or self._drift:
            return
        until = golden.end, candidate.end
        off = {slot: apart(tensor, theirs[slot]) for slot, tensor in ours.items()}
        allowed = allowance(eps, _CALLS, _CALLS)
        names = tuple(slot.removeprefix("in.") for slot in off if off[slot] > allowed)
        point = self._owed(Point("told", golden, candidate, max(off.values()), allowed, names), until)
        if point is not None:
            yield point

    def _loss(self, golden: Call, candidate: Call, eps: float, given: float) -> Point | None:
        off = self._loss_apart(golden, candidate)
        if off is None or self._in_another_order(golden):
            return None
        allowed = allowance(eps, _CALLS, _CALLS)
        allowed *= self._cancelled(golden, candidate, allowed)
        return Point("loss", golden, candidate, off, allowed + passed_on(given))

    def _cancelled(self, golden: Call, candidate: Call, allowed: float) -> float:
        """How many times its own size the terms of a loss are, where they cancel; 1 where they do not.

        Rounding moves a loss as a change of its parameters by a rounding unit does: by their size times that of their
        gradients (Higham, section 1.5, on the backward error). The loss of a policy that is its old one is 0 but for
        that, and its gradients tell the policy's errors.
        """
        sides = (self._golden, golden), (self._candidate, candidate)
        loss, other = (
            max((tensor.norm for tensor in side.inputs.get(call.index, {}).values()), default=0.0)
            for side, call in sides
        )
        moved = 0.0
        for name in self._used(golden):
            gradient = self._golden.value("gradient", name, golden.end)
            value = self._golden.value("parameter", name, golden.end)
            if gradient is not None and value is not None:
                moved = math.hypot(moved, gradient.norm * value.norm)
        if not math.isfinite(moved) or loss >= _CANCELS * moved:
            return 1.0
        if not loss:
            return INFINITE if other <= allowed * moved else 1.0
        return moved / loss

    def _loss_apart(self, golden: Call, candidate: Call) -> float | None:
        """Distance of what both go backward from; None where that is not of the same tensors."""
        ours, theirs = self._golden.inputs.get(golden.index, {}), self._candidate.inputs.get(candidate.index, {})
        if not ours or ours.keys() != theirs.keys():
            return None
        return max(apart(tensor, theirs[slot]) for slot, tensor in ours.items())

    def _in_another_order(self, backward: Call) -> bool:
        """Whether a model is given in this place of the step what golden's was given in another, and in another what
        golden's was given in this place. What is given twice, and the other never, is no order.
        """
        for call in self._golden.calls.values():
            if not call.flags & ENTRY or call.window != backward.window or call.begin > backward.begin:
                continue
            found = self._calls.compared.get(call.index)
            if found is None:
                continue
            slot = f"in.{found.why}"
            given = self._candidate.inputs.get(found.candidate.index, {}).get(slot)
            own = self._golden.inputs.get(call.index, {}).get(slot)
            others = (self._golden.inputs.get(other, {}).get(slot) for other in self._entries(backward.window))
            taken = given is not None and any(other is not None and apart(other, given) == 0 for other in others)
            if taken and own is not None and self._is_given(own, found.candidate.window):
                return True
        return False

    def _is_given(self, tensor: Tensor, window: int) -> bool:
        """Whether any whole model of the candidate is given a tensor in a step."""
        entries = (c.index for c in self._candidate.calls.values() if c.flags & ENTRY and c.window == window)
        given = (other for index in entries for other in self._candidate.inputs.get(index, {}).values())
        return any(apart(tensor, other) == 0 for other in given)

    def _entries(self, window: int) -> list[int]:
        calls = self._golden.calls.values()
        return [call.index for call in calls if call.flags & ENTRY and call.window == window]

    def _left(self, golden: Call, candidate: Call, eps: float, given: float) -> Point | None:
        """The gradients after a backward pass. Where others follow before the step, ranks may exchange them after each
        or after the last, and add them up elsewhere until then: what the last leaves, and the step uses, decides.
        """
        point = self._gradients(golden, candidate, eps, given)
        if point is not None and point.holds:
            return point
        following = []
        for index in self._events(golden.window):
            call = self._golden.calls[index]
            if call.kind in ("autograd", "optimizer") and call.begin > golden.end:
                following.append(call)
                if call.kind == "optimizer":
                    break
        if len(following) < 2 or following[-1].kind != "optimizer":
            return point
        looks = []
        for call in following[-2:]:
            other = self._candidate.calls.get(self._calls.pairs.get(call.index, -1))
            looks.append(self._gradients(call, other, eps, given) if other is not None else None)
        agreed = [look for look in looks if look is not None and look.holds]
        return replace(agreed[0], golden=golden, candidate=candidate) if len(agreed) == len(looks) else point

    def _gradients(self, golden: Call, candidate: Call, eps: float, given: float) -> Point | None:
        at = golden.end, candidate.end
        if golden.kind == "optimizer":
            begin, other = self._golden.hyper.get(golden.index), self._candidate.hyper.get(candidate.index)
            if begin is None or other is None:
                return None
            at = begin[0], other[0]
        names = self._used(golden)
        found: dict[str, tuple[Tensor, float]] = {}
        for name in names:
            ours = self._golden.value("gradient", name, at[0])
            theirs = self._candidate.value("gradient", name, at[1])
            if ours is None or (theirs is not None and are_other_parts(ours, theirs)):
                continue
            if theirs is None or ours.shape != theirs.shape:
                return None  # a gradient that did not arrive is what other rules report
            found[name] = ours, apart(ours, theirs)
        sizes = [ours.norm / math.sqrt(max(ours.size, 1)) for ours, _ in found.values() if math.isfinite(ours.norm)]
        scale = max(sizes, default=0.0)
        floor = eps if eps > COARSE else _NOISE * eps
        excess = {}
        for name, (ours, off) in found.items():
            noise = floor * scale * math.sqrt(ours.size) / ours.norm if ours.norm else INFINITE
            excess[name] = off, allowance(eps, _CALLS, _CALLS) + passed_on(given) + noise
        if golden.kind == "autograd" and eps > COARSE and not given and self._loss_apart(golden, candidate) == 0:
            for name, own in singled_out(self._calls, golden, found, eps).items():
                excess[name] = found[name][1], min(own, excess[name][1])
        return _worst("gradient", golden, candidate, excess)

    def _used(self, golden: Call) -> list[str]:
        """The parameters that the next optimizer step consumes the gradients of. A generator's loss leaves gradients in
        the discriminator too, and that of a new task in the heads of old ones, which somebody clears sooner or later.

        Of one model that step moves what its optimizer holds, unless it moves nothing, as with a rate of 0: then all
        of the model counts.
        """
        steps = [call for call in self._golden.calls.values() if call.kind == "optimizer" and call.end >= golden.end]
        step = min(steps, key=lambda call: call.begin, default=None)
        models = tuple(f"{root}." for root in models_in(step.optimizer if step is not None else "")) or ("",)
        names = [name for kind, name in self._golden.values if kind == "gradient" and name.startswith(models)]
        other = self._candidate.calls.get(self._calls.pairs.get(step.index, -1)) if step is not None else None
        if step is None or other is None:
            return names
        ours, theirs = self._golden.hyper.get(step.index), self._candidate.hyper.get(other.index)
        if ours is None or theirs is None:
            return names
        moved = {name for name, *_ in self._moved(("parameter",), (ours[0], theirs[0]), (step.end, other.end))}
        return [name for name in names if name in moved] or names

    def _update(self, golden: Call, candidate: Call, given: float) -> Point | None:
        ours, theirs = self._golden.hyper.get(golden.index), self._candidate.hyper.get(candidate.index)
        first = golden.optimizer not in self._golden.stepped and not any(
            call.kind == "optimizer" and call.optimizer == golden.optimizer and call.begin < golden.begin
            for call in self._golden.calls.values()
        )
        if ours is None or theirs is None or ours[1] != theirs[1]:
            return None
        if not first and golden.optimizer not in self._known:
            return None
        self._known.add(golden.optimizer)
        begin, end = (ours[0], theirs[0]), (golden.end, candidate.end)
        excess = {}
        # An update by hand is seen together with what follows it, as averages do.
        models = tuple(f"{root}." for root in models_in(golden.optimizer)) if golden.name == f"{BY_HAND}.step" else ()
        for name, value, moved, change in self._moved(("parameter",), begin, end):
            if models and not name.startswith(models):
                continue
            gradients = self._values("gradient", name, begin)
            noisy, negligible = 0.0, 0.0
            if gradients is not None:
                noisy, negligible = apart(*gradients), gradients[0].negligible / max(gradients[0].size, 1)
            if noisy > agreement(epsilon("float32")):
                self._drift = INFINITE  # what follows from this update owes nothing
                continue
            signs = passed_on_by_signs(noisy, negligible, max(value.size, 1))
            excess[name] = moved, _rounding(value, change) + signs + passed_on(given)
            self._stepped[name] = end
            self._drift = max(self._drift, moved)
        point = _worst("step", golden, candidate, excess)
        if point.holds:
            return point
        # An update is made of values and gradients alone, but for what an optimizer draws itself.
        if not self._calls.same_draws((golden.begin, candidate.begin), (golden.end, candidate.end)):
            return None
        return replace(point, factor=self._factor(tuple(excess), begin, end))

    def _factor(self, names: tuple[str, ...], begin: tuple[float, float], end: tuple[float, float]) -> float | None:
        """What golden's changes of these parameters are to be multiplied by to give the candidate's."""
        values = [(self._values("parameter", name, begin), self._values("parameter", name, end)) for name in names]
        return times([(early, late) for early, late in values if early is not None and late is not None])

    def _values(self, kind: str, name: str, at: tuple[float, float]) -> tuple[Tensor, Tensor] | None:
        """A variable on both sides; None where one does not have it."""
        ours, theirs = self._golden.value(kind, name, at[0]), self._candidate.value(kind, name, at[1])
        return None if ours is None or theirs is None else (ours, theirs)

    def _first(self, kind: str, name: str, until: tuple[float, float]) -> tuple[Tensor, Tensor] | None:
        """The first value of a variable on both sides, if it was looked at by then."""
        ours, theirs = self._golden.values[kind, name][0], self._candidate.values.get((kind, name), [None])[0]
        return (ours, theirs) if theirs is not None and ours.at <= until[0] and theirs.at <= until[1] else None

    def _moved(
        self, kinds: tuple[str, ...], begin: tuple[float, float], end: tuple[float, float]
    ) -> Iterator[tuple[str, Tensor, float, float]]:
        """Each variable that has changed on either side since `begin`, or since an optimizer moved it: its name and
        value, how far apart the changes are, relative to golden's, and golden's change relative to the value.
        """
        for kind, name in self._golden.values:
            since = self._stepped.get(name, begin)
            after = self._values(kind, name, end)
            # What is tracked only since a copy of it was made has its first value as its beginning.
            before = self._values(kind, name, max(since, begin)) or self._first(kind, name, end)
            if kind not in kinds or before is None or after is None:
                continue
            if are_other_parts(*before) or are_other_parts(*after):
                continue
            if any(late.index != early.index for early, late in zip(before, after, strict=True)):
                yield name, before[0], *moved_apart(before, after)

    def _variables(
        self, golden: Call, candidate: Call, start: tuple[float, float], until: tuple[float, float], given: float
    ) -> Point | None:
        """Everything that moved in a step and is no work of the calls above: averages, statistics, clamped weights;
        after the optimizer step `golden`, as the first forward pass from `until` on finds it.
        """
        begin = settled(self._golden, start[0]), settled(self._candidate, start[1])
        end = settled(self._golden, until[0]), settled(self._candidate, until[1])
        excess = {}
        extra = passed_on_by_signs(max(given, self._drift))
        for name, value, moved, change in self._moved(("parameter", "buffer"), begin, end):
            excess[name] = moved, _rounding(value, change) + extra
        return self._owed(_worst("variable", golden, candidate, excess), end)


def _rounding(value: Tensor, change: float) -> float:
    """What rounding explains in a change of a variable, which is `change` times as large as the variable."""
    eps = epsilon(value.dtype) or epsilon("float32")
    return allowance(eps, _CALLS, _CALLS) + (_UPDATED * eps / change if change else 0.0)


def _worst(what: str, golden: Call, candidate: Call, excess: dict[str, tuple[float, float]]) -> Point:
    if not excess:
        return Point(what, golden, candidate, 0.0, 0.0)  # nothing moved, as where the learning rate begins with 0
    wrong = sorted((name for name, (off, allowed) in excess.items() if off > allowed), key=lambda n: -excess[n][0])
    name = wrong[0] if wrong else max(excess, key=lambda n: excess[n][0] - excess[n][1])
    return Point(what, golden, candidate, *excess[name], tuple(wrong))


def _end_before(side: Computed, window: int) -> float:
    """When the last optimizer step before a window ended."""
    return max((c.end for c in side.calls.values() if c.kind == "optimizer" and c.window < window), default=0)


def _begin_after(side: Computed, window: int) -> float:
    later = [call.begin for call in side.calls.values() if call.window > window]
    return min(later, default=side.last)
