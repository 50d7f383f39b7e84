"""`torch.save`, `torch.load` and what other libraries have in their place: what of the models is saved, and into which
parameters is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import digest as content
from ..context import Call, ThreadState, quiet, unobservable
from ..walk import pairs, sequence
from .base import Named, observe
from .loading import GIVEN, MISSING

if TYPE_CHECKING:
    from ..install import Probe
    from ..modules import Root
    from ..recorder import Recorder
    from ..variable import Slot

_ROWS = 20_000
"""Measures of a process after which no more are taken: a checkpoint may be saved in every step."""
_DEPTH = 6


class _Stored(Named):
    """What has an argument that is a state, a module, or a container of such."""

    def __init__(self, name: str, kind: str, *, method: bool = False, argument: str = "obj") -> None:
        super().__init__(name, kind, method=method)
        self._argument = argument
        self._left: tuple[object, int] = (None, 0)

    def tensors(self, args: tuple[Any, ...], call: Call) -> list[tuple[str, torch.Tensor]]:
        return list(_tensors(self.parameters.argument(args, call.kwargs, self._argument), "", _DEPTH, set()))

    def room(self, recorder: Recorder) -> bool:
        if self._left[0] is not recorder:
            self._left = (recorder, _ROWS)
        return self._left[1] > 0

    def spend(self, rows: int) -> None:
        self._left = (self._left[0], self._left[1] - rows)


class Save(_Stored):
    """Says which parameters and buffers are in what is saved, with which content, and which of their models are not."""

    rare = "save"

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        # One that writes by means of another is given everything, and the other perhaps tensor by tensor.
        within = any(issubclass(type(outer.family), Save) for outer in state.stack if outer is not call)
        if within or not self.room(recorder) or unobservable():
            return
        recorder.variables.refresh()
        recorder.attributes.stored(state, call, recorder.measures)
        saved = self.tensors(args, call)
        with quiet(state):
            found = _found_among(recorder.modules.roots, recorder.variables.copies, saved)
        for slot, digest in found:
            recorder.measures.of_slot(state, "save.content", call, slot, digest=digest)
        left_out = _left_out(recorder.modules.roots, [slot for slot, _ in found])
        for slot in left_out:
            recorder.measures.of_slot(state, "save.without", call, slot)
        self.spend(len(found) + len(left_out))


class LoadInto(_Stored):
    """A function that reads into the tensors that it is given: says which parameters and buffers these are."""

    def before(self, recorder: Recorder, state: ThreadState, args: tuple[Any, ...]) -> None:
        recorder.variables.refresh()

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        recorder.look(state, call, values=True)
        recorder.attributes.stored(state, call, recorder.measures)
        if not self.room(recorder) or unobservable():
            return
        roots = recorder.modules.roots
        read = [tensor for _, tensor in self.tensors(args, call)]
        for tensor in read:
            if not tensor.is_inference():
                recorder.filled.add(tensor, tensor._version + 1 - recorder.filled.of(tensor))
        given = _found_at(roots, read)
        missing = _left_out(roots, given)
        for what, slots in ((GIVEN, given), (MISSING, missing)):
            for slot in slots:
                recorder.measures.of_slot(state, "load.given", call, slot, float(what))
        self.spend(len(given) + len(missing))


class LoadFile(Named):
    """What was trained by hand may go on from a file."""

    rare = "file"

    def before(self, recorder: Recorder, state: ThreadState, args: tuple[Any, ...]) -> None:
        recorder.by_hand.loading(state)


def _found_among(
    roots: Iterable[Root], tracked: Iterable[Slot], tensors: Iterable[tuple[str, torch.Tensor]]
) -> list[tuple[Slot, int]]:
    """Which of these tensors, given with their names, are parameters and buffers of modules, or copies that are
    `tracked` or of this moment: where they are, and the content hash of each. Call under `quiet()`.

    A copy of this moment has the name at the end of its own, and the content.
    """
    places = _places(slot for root in roots for slot in root.slots)
    names: dict[str, list[tuple[Slot, list[Slot]]]] = {}
    for tied in places.values():
        for slot in tied:
            names.setdefault(slot.var.name.rpartition(".")[2], []).append((slot, tied))
    for place, slots in _places(tracked).items():
        places.setdefault(place, slots)
    found = []
    for name, tensor in tensors:
        readable = content.local(tensor)
        if readable is None or readable.layout is not torch.strided or not readable.numel():
            continue
        hashed = content.digest(readable)
        slots = places.get((readable.data_ptr(), readable.shape)) or [
            other
            for slot, tied in names.get(name.rpartition(".")[2], ())
            if slot.var.digest == hashed and f".{name}".endswith(f".{slot.var.name}")
            for other in tied  # who saves a copy under one of its names has saved it
        ]
        found += [(slot, hashed) for slot in slots]
    return found


def _found_at(roots: Iterable[Root], tensors: Sequence[torch.Tensor]) -> list[Slot]:
    """The parameters and buffers that these tensors are, or lie where they do."""
    places = _places(slot for root in roots for slot in root.slots)
    readables = [content.local(tensor) for tensor in tensors]
    strided = [readable for readable in readables if readable is not None and readable.layout is torch.strided]
    found = [slot for readable in strided for slot in places.get((readable.data_ptr(), readable.shape), ())]
    return list({id(slot): slot for slot in found}.values())


def _places(slots: Iterable[Slot]) -> dict[tuple[int, torch.Size], list[Slot]]:
    """Where parameters and buffers lie, and what lies there under several names."""
    places: dict[tuple[int, torch.Size], list[Slot]] = {}
    for slot in slots:
        held = slot.tensor()
        readable = content.local(held) if held is not None else None
        if readable is not None and readable.layout is torch.strided and readable.numel():
            places.setdefault((readable.data_ptr(), readable.shape), []).append(slot)
    return places


def _left_out(roots: Iterable[Root], saved: list[Slot]) -> list[Slot]:
    """What else the models have of which something is saved, as far as `state_dict()` has it."""
    known = set(map(id, saved))
    partly = (root for root in roots if any(id(slot) in known for slot in root.slots))
    return [
        slot
        for root in partly
        for slot in root.slots
        if id(slot) not in known and slot.is_saved and (tensor := slot.tensor()) is not None and tensor.numel()
    ]


def _tensors(value: Any, name: str, depth: int, seen: set[int]) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in a container, with its name; of a module that is saved as a whole, its parameters and buffers.
    `seen` has the ids of modules that were there before: one may hold its own parent.
    """
    if issubclass(type(value), torch.Tensor):
        yield name, value
    elif issubclass(type(value), torch.nn.Module):
        if id(value) in seen:
            return
        seen.add(id(value))
        for entries in (value._parameters, value._buffers, value._modules):
            for key, item in list(entries.items()):
                yield from _tensors(item, f"{name}.{key}", depth, seen)
    elif depth:
        named = pairs(value)
        if named is None:
            named = [(str(place), item) for place, item in enumerate(sequence(value) or ())]
        for key, item in named:
            yield from _tensors(item, f"{name}.{key}", depth - 1, seen)


def install(probe: Probe) -> None:
    """Observe both functions."""
    observe(probe, torch.save, Save("torch.save", "io"))
    observe(probe, torch.load, LoadFile("torch.load", "io"))
