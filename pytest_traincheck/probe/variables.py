"""Tracked variables: what state they were in when last looked at, and a change row for whatever is different now."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from . import devices, numerics, walks
from . import digest as content
from .backwards import Backwards
from .core import native
from .gpu import Seen
from .modules import Modules, Root
from .storages import Remembered, remembered
from .symbols import Symbols
from .tracked import Tracked, holds_another
from .variable import Slot, Var

Emit = Callable[[int, int, int, int, float], None]
"""Writes a change: var id, old state, new state, digest, value."""
Measure = Callable[[str, int, float], None]
"""Writes a measure of a variable: name, var id, number."""
Around = AbstractContextManager[Any]
"""What is entered for looks that read or run more than the compiled core does: `quiet`, unless the caller has."""
Present = tuple[Var, torch.Tensor, torch.Tensor]
"""A gradient that is to be looked at: its variable, itself, and the parameter."""


class Made(Protocol):
    """What knows how the values of tensors came about."""

    def initialisations(self, tensor: torch.Tensor) -> int:
        """How often a tensor has been initialised."""
        ...

    def overwritten(self, tensor: torch.Tensor) -> bool:
        """Whether something else was written into it since."""
        ...


PLACED = "parameter.placed="
"""Prefix of the measure of a parameter of which ranks hold parts; how it lies on them follows."""
DRIFT = "parameter.drift"
"""Name of the measure of how far a parameter that no optimizer holds is from where it began."""
_DRIFTS = 16
"""How often that is measured of one parameter."""


class Variables(Tracked):
    """All tracked variables of this process. Methods that look at tensors are called under `quiet()`."""

    def __init__(self, symbols: Symbols, modules: Modules, backwards: Backwards) -> None:
        super().__init__(symbols, modules)
        self._backwards = backwards
        self._owners: dict[int, tuple[Remembered, Var]] = {}
        self._suspicious = False
        self.with_norms = True
        """Whether gradients are written with their norms."""
        self.gradients_dirty = False
        self._ahead: dict[int, Seen] = {}
        """What was looked at before its turn, by the `id` of the tensor."""

    def look_at_new(self, emit: Emit, measure: Measure | None = None, made: Made | None = None) -> None:
        """First look at whatever has not been seen: initial states, and numbers about them where `measure` is given."""
        self.unseen = False
        leaves: list[tuple[Var, torch.Tensor]] = []
        slots = [slot for slot in self.slots() if slot.var.state == content.UNSEEN]
        for slot, tensor in self._each(slots, lambda: walks.held(slots)):
            self._look(slot, tensor, emit, full=True, finite=True)
            self._look_at_flag(slot, tensor, emit)
            if measure is not None and slot.var.kind == "parameter" and slot.var.first is None:
                self._measure_initial(slot.var, tensor, measure, made)
            grad = slot.grad
            if grad is not None and grad.state == content.UNSEEN and tensor.is_leaf and tensor.requires_grad:
                leaves.append((grad, tensor))
        if measure is not None:
            for number, placement in self.placed():
                measure(f"{PLACED}{placement}", number, math.nan)
        gradients = self._backwards.gradients(tensor for _, tensor in leaves) if leaves else {}
        for var, tensor in leaves:
            if gradients.get(id(tensor), tensor) is None:
                self._change(var, tensor, content.ABSENT, 0, math.nan, emit)

    def forget(self) -> None:
        """Nobody knows what became of anything since it was looked at."""
        for slot in self.slots():
            # Before it is forgotten what was there.
            tensor = slot.tensor() if slot.grad is not None and not self.replaced else None
            self.replaced = self.replaced or (tensor is not None and holds_another(slot, tensor))
            for var in (slot.var, slot.grad, slot.flag):
                if var is not None:
                    var.forget()

    def look_again(self, emit: Emit) -> None:
        """Everything that was forgotten, as if it was seen for the first time."""
        self.unseen = False
        for slot, tensor in self._each(walks.again(self.slots(), emit), lambda: walks.held(self.slots())):
            if slot.var.state == content.UNSEEN:
                self._look(slot, tensor, emit, full=True, finite=True)
                self._look_at_flag(slot, tensor, emit)
        self.look_at_gradients(emit, full=True)

    def look_at_values(self, emit: Emit, around: Around = walks.NOTHING) -> None:
        """Parameters, buffers and `requires_grad` of everything seen before, where something suggests a change."""
        places = walks.values(self.slots(), walks.VALUES, emit, around=around, ahead=self._ahead)
        for slot, tensor in self._each(places, lambda: walks.far(self.slots(), walks.VALUES)):
            if slot.var.state != content.UNSEEN:
                if not slot.var.looks_same(tensor):
                    self._look(slot, tensor, emit, full=True)
                self._look_at_flag(slot, tensor, emit)

    def nothing_new(self, values: bool, gradients: bool) -> bool:
        """Whether it is sure that nothing suggests a change of values, or of gradients. False: it is not known."""
        if native is None or (gradients and self.gradients_dirty):
            return False
        return self._backwards.nothing_new(self.slots(), values, gradients)

    def look_at(self, slots: Iterable[Slot], emit: Emit) -> None:
        """Some of them, as they are now."""
        some = [*slots]
        for slot, tensor in self._each(some, lambda: walks.held(some)):
            self._look(slot, tensor, emit, full=True)

    def look_at_buffers(self, root: Root, emit: Emit, around: Around) -> None:
        """Buffers of one root."""
        places = walks.values(root.slots, walks.BUFFERS, emit, around=around, ahead=self._ahead)
        for slot, tensor in self._each(places, lambda: walks.far(root.slots, walks.BUFFERS)):
            if slot.grad is None:
                self._look(slot, tensor, emit, full=True)

    def _each(
        self, places: Iterable[Slot], far: Callable[[], Iterable[torch.Tensor]]
    ) -> Iterator[tuple[Slot, torch.Tensor]]:
        """Places that hold a tensor, which are looked at in turn. When the first one comes that lies on another device,
        what `far` returns is looked at ahead.
        """
        looked = False
        try:
            for slot in places:
                if (tensor := slot.tensor()) is None:
                    continue
                if not looked and not tensor.is_cpu:
                    looked = True
                    self._ahead.update(devices.look_at_each(far()))
                yield slot, tensor
        finally:
            self._ahead.clear()

    def _measure_initial(
        self,
        var: Var,
        tensor: torch.Tensor,
        measure: Measure,
        made: Made | None,
    ) -> None:
        found = numerics.rms_and_mean(tensor)
        if found is None:
            return
        number = self.id_of(var, tensor)
        measure("parameter.rms", number, found[0])
        measure("parameter.mean", number, found[1])
        for name, value in numerics.shape_of_values(tensor, *found).items():
            measure(f"parameter.{name}", number, value)
        if made is not None:
            measure("parameter.initialised", number, float(made.initialisations(tensor)))
            if made.overwritten(tensor):
                measure("parameter.overwritten", number, 1.0)
        var.elements = numerics.sample(tensor)
        readable = content.local(tensor)
        pointer = readable.data_ptr() if readable is not None and content.has_address(readable) else 0
        owner = self._owners.get(pointer)
        if owner is not None and owner[0].alive and owner[1].key != id(tensor):
            measure("parameter.shares", number, float(owner[1].id))
        elif pointer and (held := remembered(tensor)) is not None:
            self._owners[pointer] = (held, var)

    def measure_updates(self, measure: Measure) -> None:
        """How far each parameter moved since this was last asked."""
        held = [(slot, slot.tensor()) for slot in self.slots() if slot.var.elements is not None]
        moved = [(slot, tensor) for slot, tensor in held if tensor is not None]
        for (slot, _), after in zip(moved, numerics.samples([tensor for _, tensor in moved]), strict=True):
            before, slot.var.elements = slot.var.elements, after
            if before is not None and after is not None and after.shape == before.shape:
                change = numerics.relative_change(before, after)
                if 0 < change < math.inf:
                    measure("parameter.update", slot.var.id, change)

    def forget_samples(self) -> None:
        """No more updates will be measured."""
        for slot in self.slots():
            slot.var.elements = None

    def look_after_step(
        self, own: set[int], optimized: set[int], emit: Emit, emit_outside: Emit, measure: Measure
    ) -> None:
        """All parameters of an optimizer (`own`: ids of tensors) and of none; those of others when they moved. How far
        those of none are from where they began is measured.
        """
        places: Iterable[Slot] = self.slots()
        if not self._suspicious:
            places = walks.values(self.slots(), walks.STEP, emit, emit_outside, own, optimized, ahead=self._ahead)
        for slot, tensor in self._each(places, lambda: walks.far(self.slots(), walks.STEP, own, optimized)):
            mine = id(tensor) in own
            full = mine or id(tensor) not in optimized
            self._look(slot, tensor, emit if mine else emit_outside, full, finite=self._suspicious)
            if slot.grad is not None and slot.var.first is None:
                self._measure_drift(slot.var, tensor, id(tensor) in optimized, measure)

    @staticmethod
    def _measure_drift(var: Var, tensor: torch.Tensor, held: bool, measure: Measure) -> None:
        if held:
            var.origin = None
        elif var.origin is None:
            if var.drifts < _DRIFTS:
                var.origin, var.settled = numerics.sample(tensor), var.digest
        elif var.digest != var.settled:
            var.settled = var.digest
            var.drifts += 1
            now = numerics.sample(tensor)
            if now is not None and now.shape == var.origin.shape:
                measure(DRIFT, var.id, numerics.relative_change(var.origin, now))
            if var.drifts >= _DRIFTS:
                var.origin = None  # It changes all the time, as an average does.

    def look_at_gradients(self, emit: Emit, full: bool, around: Around = walks.NOTHING) -> None:
        """Gradients of everything that requires one; without `full` only those that seem to have changed."""
        full = full or self.gradients_dirty
        self.gradients_dirty = False
        present: list[Present] = []
        readables: list[torch.Tensor] = []
        for slots, gradients in self._backwards.walk(self.slots(), full, emit, present, readables):
            with around:
                for slot in slots:
                    self._look_at_gradient(slot, gradients, full, emit, present, readables)
        if present:
            with around:
                self._measure(present, readables, emit)

    def _look_at_gradient(
        self,
        slot: Slot,
        gradients: Mapping[int, torch.Tensor | None],
        full: bool,
        emit: Emit,
        present: list[Present],
        readables: list[torch.Tensor],
    ) -> None:
        var, flag = slot.grad, slot.flag
        tensor = slot.tensor() if var is not None else None
        if var is None or flag is None or tensor is None:
            return
        requires_grad = tensor.requires_grad
        if flag.state != (content.TRUE if requires_grad else content.FALSE):
            self._look_at_flag(slot, tensor, emit)
        if (not requires_grad and var.state in (content.UNSEEN, content.ABSENT)) or id(tensor) not in gradients:
            return
        grad = gradients[id(tensor)]
        if grad is None:
            if var.state != content.ABSENT:
                self._change(var, tensor, content.ABSENT, 0, math.nan, emit)
                var.key = 0
        elif (full or not var.looks_same(grad)) and (readable := content.local(grad)) is not None:
            present.append((var, grad, tensor))
            readables.append(readable)

    def _measure(self, present: list[Present], readables: list[torch.Tensor], emit: Emit) -> None:
        self._suspicious = False
        # Without them the numbers themselves are looked at, and the row has none.
        self._ahead.update(devices.look_at_each(readables, self.with_norms))
        norms = self._norms(readables)
        for place in walks.measured(present, norms, emit, self._ahead):
            var, grad, owner = present[place]
            # A norm underflows to 0, overflows to inf, or is missing: then look at the numbers themselves.
            telling = content.NONZERO if 0 < norms[place] < math.inf else 0
            seen = self._seen(readables[place], True, telling)
            state, hashed = seen[:2]
            self._suspicious = self._suspicious or state == content.NONFINITE
            var.remember(grad, seen)
            if state != var.state or hashed != var.digest:
                self._change(var, owner, state, hashed, norms[place], emit)
        self._ahead.clear()

    def _norms(self, gradients: Sequence[torch.Tensor]) -> list[float]:
        if not self.with_norms:
            return [math.nan] * len(gradients)
        near = [gradient for gradient in gradients if id(gradient) not in self._ahead]
        norms = iter(content.norms([*near]))
        return [seen[3] if (seen := self._ahead.get(id(one))) is not None else next(norms) for one in gradients]

    def _seen(self, readable: torch.Tensor, finite: bool, known: int = 0) -> content.Look:
        ahead = self._ahead.get(id(readable))
        return content.look(readable, finite, known) if ahead is None else devices.as_look(ahead, finite, known)

    def _look(self, slot: Slot, tensor: torch.Tensor, emit: Emit, full: bool, finite: bool = False) -> None:
        var = slot.var
        if not full and var.looks_same(tensor):
            return
        self.replaced = self.replaced or holds_another(slot, tensor)
        first = var.first
        if first is not None and first.key == id(tensor) and first.state != content.UNSEEN:
            state, hashed = first.state, first.digest  # the same tensor under its first name, looked at just before
            var.same_as(first)
        else:
            readable = content.local(tensor)
            if readable is None:
                return
            seen = self._seen(readable, finite or var.state == content.NONFINITE)
            state, hashed = seen[:2]
            var.remember(tensor, seen)
        if state != var.state or hashed != var.digest:
            self._change(var, tensor, state, hashed, math.nan, emit)

    def _look_at_flag(self, slot: Slot, tensor: torch.Tensor, emit: Emit) -> None:
        flag = slot.flag
        if flag is not None:
            state = content.TRUE if tensor.requires_grad else content.FALSE
            if state != flag.state:
                self._change(flag, tensor, state, state, math.nan, emit)

    def _change(self, var: Var, tensor: torch.Tensor, state: int, hashed: int, value: float, emit: Emit) -> None:
        emit(self.id_of(var, tensor), var.state, state, hashed, value)
        var.state, var.digest = state, hashed

    # learning rates

    def look_at_rate(self, var: Var, group: int, rate: float, emit: Emit) -> None:
        """The learning rate of one optimizer group."""
        hashed = zlib.crc32(struct.pack("<d", rate)) + 1
        if var.state == content.VALUE and var.digest == hashed:
            return
        if not var.id:
            fields = {"kind": "lr", "root": 0, "opt": var.opt, "name": var.name, "shape": [], "dtype": "float64"}
            var.id = self._symbols.new("var", {**fields, "same": 0, "requires_grad": False, "group": group})
        emit(var.id, var.state, content.VALUE, hashed, rate)
        var.state, var.digest = content.VALUE, hashed
