"""`torch.save` and `torch.load`, and what of the models is saved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from .. import digest as content
from ..context import Call, ThreadState, quiet, unobservable
from ..walk import pairs, sequence
from .base import Named, observe

if TYPE_CHECKING:
    from ..install import Probe
    from ..modules import Root
    from ..recorder import Recorder
    from ..variable import Slot

_ROWS = 20_000
"""Measures of a process after which no more are taken: a checkpoint may be saved in every step."""
_DEPTH = 6


class Save(Named):
    """Says which parameters and buffers are in what is saved, with which content, and which of their models are not."""

    def __init__(self) -> None:
        super().__init__("torch.save", "io")
        self._left: tuple[object, int] = (None, 0)

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        if self._left[0] is not recorder:
            self._left = (recorder, _ROWS)
        if self._left[1] <= 0 or unobservable():
            return
        recorder.variables.refresh()
        saved = list(_tensors(self.parameters.argument(args, call.kwargs, "obj"), "", _DEPTH, set()))
        with quiet(state):
            found = _found_among(recorder.modules.roots, saved)
        for slot, digest in found:
            recorder.measures.of_slot(state, "save.content", call, slot, digest=digest)
        left_out = _left_out(recorder.modules.roots, [slot for slot, _ in found])
        for slot in left_out:
            recorder.measures.of_slot(state, "save.without", call, slot)
        self._left = (recorder, self._left[1] - len(found) - len(left_out))


class LoadFile(Named):
    """What was trained by hand may go on from a file."""

    def before(self, recorder: Recorder, state: ThreadState, args: tuple[Any, ...]) -> None:
        recorder.by_hand.loading(state)


def _found_among(roots: Iterable[Root], tensors: Iterable[tuple[str, torch.Tensor]]) -> list[tuple[Slot, int]]:
    """Which of these tensors, given with their names, are parameters and buffers of modules or copies of them: where
    they are, and the content hash of each. Call under `quiet()`.

    A copy has the name at the end of its own, and the content.
    """
    places: dict[tuple[int, torch.Size], list[Slot]] = {}
    names: dict[str, list[Slot]] = {}
    for root in roots:
        for slot in root.slots:
            held = slot.tensor()
            readable = content.local(held) if held is not None else None
            if readable is not None and readable.layout is torch.strided and readable.numel():
                places.setdefault((readable.data_ptr(), readable.shape), []).append(slot)
                names.setdefault(slot.var.name.rpartition(".")[2], []).append(slot)
    found = []
    for name, tensor in tensors:
        readable = content.local(tensor)
        if readable is None or readable.layout is not torch.strided or not readable.numel():
            continue
        hashed = content.digest(readable)
        slots = places.get((readable.data_ptr(), readable.shape)) or [
            slot
            for slot in names.get(name.rpartition(".")[2], ())
            if slot.var.digest == hashed and f".{name}".endswith(f".{slot.var.name}")
        ]
        found += [(slot, hashed) for slot in slots]
    return found


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
    observe(probe, torch.save, Save())
    observe(probe, torch.load, LoadFile("torch.load", "io"))
