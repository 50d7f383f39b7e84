"""Training steps of a program that has no optimizer of torch's: it changes its parameters itself.

Between a `backward` and whatever uses the parameters next they either changed, which was a step, or they did not, as
while gradients are accumulated. That is looked at before the next forward pass, the next call of a function and the
next `backward`, and not where gradients are still being worked on. A step is a call of `ByHand.step` in the trace, by
the place of the `backward` that went before it. Once there has been an optimizer of torch's nothing is looked at.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from . import loose, numerics
from .context import Call, ThreadState, innermost, quiet, unobservable
from .switches import Switches
from .symbols import Api
from .variable import Slot

if TYPE_CHECKING:
    from .recorder import Recorder

CLASS = "ByHand"
_STEP = Api(f"{CLASS}.step", "optimizer", "user")
_USES = frozenset(
    {"module", "function", "zero_grad", "data", "io", "mode", "scheduler", "scaler", "update", "construct"}
)
"""Types of calls that come when a step is over."""
_WORKS = frozenset({"clip", "collective"})
"""Types of calls that come before it is, as a rule."""
_ROOTS = 16
"""How many times tensors that no module holds make up a model."""
_LOOKED_AT = 16
"""Parameters that are asked whether anything has moved."""
_SAME_WAY, _NEAR = 0.3, 0.5
"""How clearly new tensors must lie in the way that the gradients point from the old ones to count as their update, or
else how near they must be to them.
"""


class ByHand(Switches):
    """Watches parameters that got gradients until they change."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.waits = False
        """Whether there were gradients and no step since."""
        self._state: ThreadState | None = None
        self._depth = 0
        self._backward: tuple[int, int] = (0, 0)
        """Context and source line of the last `backward`."""
        self._watched: list[Slot] = []
        self._shapes: list[torch.Size] = []
        self._before: tuple[torch.Tensor, torch.Tensor] | None = None
        """Samples of loose tensors and of their gradients when they got these."""
        self._reserved: list[int] = []
        """Numbers for a step that cannot be known of yet: its new tensors show in the next graph."""
        self._backwards = 0
        self._usual: int | None = None
        """How many times `backward` was called before the last step."""
        self._optimizers: dict[tuple[int, ...], tuple[int, dict[int, None]]] = {}
        """Roots of what is moved together -> number of the optimizer that stands for it, and what it moves."""
        self._last = 0
        """Number of the optimizer that stands for the last update."""
        self._random: tuple[dict[str, int], dict[str, float]] | None = None
        """States of the random generators after the last `backward`, and what was drawn since the last step."""
        self._steps = 0
        self._renews = False
        """Whether the last step has put new tensors in the place of the old ones."""
        self._trained: set[int] = set()
        """Models that got gradients."""
        self._roots_left = _ROOTS
        self._met: dict[int, weakref.ref[torch.Tensor]] = {}
        """Leaves of the last graph that no module holds, beside some that one does."""
        self._places: list[int] = []
        """Of each tensor of the last model that no module holds: which of the leaves of its graph it was."""

    # from outside

    def backward_begins(self, state: ThreadState, roots: Any) -> None:
        """Before an outermost `backward`, or `torch.autograd.grad`."""
        if self._absent(state):
            self._settle(state)
            self._find_loose(state, roots)

    def backward_ends(self, state: ThreadState, call: Call, given: Mapping[int, torch.Tensor] | None = None) -> None:
        """Parameters have got gradients: those whose `grad` is there, or with `given` (gradient by the id of the
        parameter) those.
        """
        if not self._absent(state):
            return
        recorder = self._recorder
        variables = recorder.variables
        watched: list[Slot] = []
        gradients: list[torch.Tensor] = []
        slots = [slot for slot in variables.slots() if slot.grad is not None and slot.var.first is None]
        tensors = [slot.tensor() for slot in slots]
        found = recorder.backwards.gradients(tensors) if given is None else given
        for slot, tensor in zip(slots, tensors, strict=True):
            gradient = found.get(id(tensor))
            if gradient is not None and tensor is not None and tensor.requires_grad:
                watched.append(slot)
                gradients.append(gradient)
        if not watched:
            return
        roots = {slot.var.root for slot in watched}
        if recorder.measures.early or not roots <= self._trained:
            self._trained |= roots
            with quiet(state):
                recorder.copies.adopt()
            recorder.before_entry(state, ())
        recorder.look(state, innermost(state), values=True)
        if recorder.sketches.wanted:
            recorder.sketches.variables(state, None)
        self._state, self._depth = state, len(state.stack) - 1
        self._backward = call.ctx, call.src
        self._watched = watched
        self._shapes = [gradient.shape for gradient in gradients]
        self._reserved = []
        self._backwards += 1
        with quiet(state):
            self._before = _samples(watched, gradients) if variables.all_loose(watched) else None
        if recorder.measures.wanted:
            # Here, and not where the step is seen: the next batch may have been drawn by then.
            before = self._random[1] if self._random is not None else {}
            states, drawn = recorder.measures.look_at_random(state)
            self._random = states, {name: count + before.get(name, 0.0) for name, count in drawn.items()}
        elif recorder.measures.following.wanted:
            self._random = recorder.measures.following.look(state), {}
        self.waits = True

    def about_to(self, state: ThreadState, kind: str) -> None:
        """Before any call while there is something to wait for. What may be part of the work on an update (clipping, a
        collective, a function while no gradients are recorded) comes after it only if all has moved.
        """
        if self._recorder.optimizers.met:
            self.waits = False  # One that was made before anybody looked has taken its first step.
        if not self.waits or state is not self._state or len(state.stack) != self._depth or unobservable():
            return
        if kind not in _USES | _WORKS or torch._C._current_graph_task_id() != -1:
            return
        every = kind in _WORKS or (kind == "function" and not torch.is_grad_enabled())
        if not self._settle(state, every=every) and not every:
            if self._before is not None and not self._reserved:
                self._reserved = self._times()
            if kind in ("mode", "construct"):
                self.waits = False  # What a state is loaded into changes too.

    @property
    def notes_copies(self) -> bool:
        """Whether a copy of a parameter may be an average of a model that is yet to be trained, as after a restart."""
        return self._steps > 0

    def loading(self, state: ThreadState) -> None:
        """A file is read: what was trained so far may go on from there."""
        if self._steps:
            self._recorder.sketches.met_optimizer(state)

    def finish(self) -> None:
        """The process ends: the last step has nothing behind it that would use it."""
        state = self._state
        if state is None or not self.waits or self._recorder.optimizers.met or state is not self._recorder.threads:
            return
        self._settle(state)
        if self.waits and self._usual == self._backwards and self._gone():
            # What was trained is gone; so far each time that gradients came so often a step followed.
            self._step_of_the_gone(state)

    # what happened

    def _find_loose(self, state: ThreadState, roots: Any) -> None:
        """Take note of the leaves of a graph that no module holds. Tensors of the same shapes, in the place of those
        that got gradients last and the way that these pointed, are their update. Beside a model's parameters only what
        comes again counts: a batch that is to get a gradient does not.
        """
        variables = self._recorder.variables
        found = loose.leaves(roots) if self._roots_left else None
        if found is None:
            return
        variables.refresh(())
        new = [tensor for tensor in found if not variables.knows(tensor) and type(tensor) is torch.Tensor]
        if len(new) < len(found):
            before, self._met = self._met, {id(tensor): weakref.ref(tensor) for tensor in new}
            new = [tensor for tensor in new if (ref := before.get(id(tensor))) is not None and ref() is tensor]
        if not new:
            return
        if self.waits and self._before is not None and len(new) == len(self._watched):
            placed = [new[place] for place in self._places]
            with quiet(state):
                follow = self._is_update(placed)
            if follow:
                for slot, tensor in zip(self._watched, placed, strict=True):
                    variables.replace(slot, tensor)
                self._step_before(state)
                return
        named = loose.named(new)
        if not named:
            return
        self._roots_left -= 1
        numbers = {id(tensor): place for place, tensor in enumerate(new)}
        self._places = [numbers[id(tensor)] for _, tensor in named]
        variables.add_loose(named)
        self._recorder.before_entry(state, ())
        if self._recorder.sketches.wanted:
            self._recorder.sketches.variables(state, None)

    def _is_update(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether tensors are what a step has made of those that are watched, and no batch that gets gradients."""
        if self._before is None or [tensor.shape for tensor in tensors] != self._shapes:
            return False
        values, gradients = self._before
        now = numerics.samples(tensors)
        if any(item is None for item in now):
            return False
        moved = torch.cat([item for item in now if item is not None]) - values
        size = float(torch.linalg.vector_norm(moved) * torch.linalg.vector_norm(gradients))
        # Of few numbers some lie that way by chance.
        least = max(_SAME_WAY, min(0.95, 1.5 / len(values) ** 0.5))
        near = 0 < float(torch.linalg.vector_norm(moved)) < _NEAR * float(torch.linalg.vector_norm(values))
        return near or (size > 0 and float(-(moved * gradients).sum()) / size > least)

    def _absent(self, state: ThreadState) -> bool:
        recorder = self._recorder
        if recorder.optimizers.met or unobservable():
            self.waits = False
            return False
        return not state.modules and not state.in_step

    def _settle(self, state: ThreadState, *, every: bool = False) -> bool:
        """Record a step if the watched parameters have changed; true if so."""
        if not self.waits:
            return False
        stride = -(-len(self._watched) // _LOOKED_AT) or 1
        with quiet(state):
            seen = [
                not slot.var.looks_same(tensor)
                for slot in self._watched[::stride]
                if (tensor := slot.tensor()) is not None
            ]
        if not (seen and (all(seen) if every else any(seen))):
            return False
        self._step(state)
        return True

    def _gone(self) -> bool:
        return self._renews or all(slot.tensor() is None for slot in self._watched)

    def _step(self, state: ThreadState) -> None:
        """Write the step that has just been seen."""
        recorder = self._recorder
        self._renews = False
        self.waits, watched, self._watched = False, self._watched, []
        before = [slot.var.digest for slot in watched]
        call = self._open(state, next(recorder.clock))
        own = {id(tensor) for slot in watched if (tensor := slot.tensor()) is not None}
        if recorder.sketches.wanted:
            recorder.sketches.settings_of_hand(call)
        if recorder.measures.wanted and self._random is not None:
            recorder.measures.write_random_states(state, call, *self._random)
        elif self._random is not None:
            recorder.measures.following.random_states(state, call, self._random[0])
        self._random = None
        with quiet(state):
            measure = recorder.measures.of_variables(state, call)
            inside, outside = recorder.emitter(state, call), recorder.emitter(state, None)
            recorder.variables.look_after_step(own, own, inside, outside, measure)
            if recorder.measures.wanted:
                recorder.variables.measure_updates(measure)
        moved = [slot for slot, digest in zip(watched, before, strict=True) if slot.var.digest != digest]
        call.opt = self._optimizer(moved or watched, call.seq)
        self._stepped(state, call, own)
        recorder.end(state, call, None)

    def _step_before(self, state: ThreadState) -> None:
        """Write the step that has made new tensors of the old ones, at the time that was set aside for it."""
        recorder = self._recorder
        clock = iter(self._reserved or self._times())
        self._renews = True
        self.waits, watched, self._watched = False, self._watched, []
        call = self._open(state, next(clock))
        if recorder.sketches.wanted:
            recorder.sketches.settings_of_hand(call, clock)
        with quiet(state):
            recorder.variables.look_at(watched, recorder.emitter(state, call, clock))
        if recorder.sketches.wanted:
            recorder.sketches.updated(state, call, watched, clock)
        call.opt = self._optimizer(watched, call.seq)
        self._stepped(state, call, {id(slot.tensor()) for slot in watched})
        recorder.end(state, call, None, clock)

    def _times(self) -> list[int]:
        """Numbers for all that is written of a step: its beginning and end, settings, and each tensor twice."""
        return [next(self._recorder.clock) for _ in range(2 * len(self._watched) + 3)]

    def _step_of_the_gone(self, state: ThreadState) -> None:
        """Write a step of which nothing is left to be seen."""
        self.waits = False
        call = self._open(state, next(self._recorder.clock))
        call.opt = self._last
        self._stepped(state, call, set())
        self._recorder.end(state, call, None)

    def _open(self, state: ThreadState, seq: int) -> Call:
        recorder = self._recorder
        number = recorder.symbols.api(_STEP)
        arguments = recorder.symbols.args(number, (), _nothing, (), {})
        call = Call(seq, 0, _STEP, number, self._backward[0], arguments, self._backward[1], 0)
        state.stack.append(call)
        return call

    def _stepped(self, state: ThreadState, call: Call, own: set[int]) -> None:
        recorder = self._recorder
        self._steps += 1
        self._usual, self._backwards = self._backwards, 0
        self._before = None
        recorder.values_moved = True
        recorder.evaluations.stepped()
        if recorder.limit is not None:
            recorder.limit.stepped(call.opt)
        if recorder.measures.wanted:
            if recorder.measures.stepped(call.opt):
                recorder.variables.forget_samples()
        elif recorder.measures.following.wanted:
            recorder.measures.stepped(call.opt)
        if recorder.sketches.wanted:
            recorder.sketches.variables(state, call)
            recorder.sketches.stepped(call.opt, own, own)
        recorder.attributes.look(call.opt, call.seq)

    def _optimizer(self, moved: Sequence[Slot], seq: int) -> int:
        """Number of the optimizer that stands for the updates of these models, with what it is known to move."""
        recorder = self._recorder
        key = tuple(sorted({slot.var.root for slot in moved}))
        known = self._optimizers.get(key)
        if known is None:
            known = self._optimizers[key] = recorder.optimizers.by_hand(CLASS), {}
        number, members = known
        new = {slot.var.id: None for slot in moved if slot.var.id and slot.var.id not in members}
        if new:
            members.update(new)
            recorder.symbols.group(number, 0, sorted(members), {}, seq)
        self._last = number
        return number


def _samples(slots: Sequence[Slot], gradients: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Elements of parameters and of their gradients, one after the other; `None` where one cannot be read."""
    values = [numerics.sample(tensor) for slot in slots if (tensor := slot.tensor()) is not None]
    others = [numerics.sample(gradient.contiguous()) for gradient in gradients]
    if any(item is None for item in (*values, *others)):
        return None
    return torch.cat([v for v in values if v is not None]), torch.cat([g for g in others if g is not None])


def _nothing(_: tuple[Any, ...], __: dict[str, Any]) -> dict[str, Any]:
    return {}
