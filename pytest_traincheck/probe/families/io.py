"""`torch.save` and `torch.load`, and what of the models is saved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from ..context import Call, ThreadState, quiet, unobservable
from ..walk import pairs, sequence
from .base import Named, observe

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder

_ROWS = 20_000
"""Measures of a process after which no more are taken: a checkpoint may be saved in every step."""
_DEPTH = 6


class Save(Named):
    """Says which parameters and buffers are in what is saved, and with which content."""

    def __init__(self) -> None:
        super().__init__("torch.save", "io")
        self._left: tuple[object, int] = (None, 0)

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        if self._left[0] is not recorder:
            self._left = (recorder, _ROWS)
        if self._left[1] <= 0 or unobservable():
            return
        recorder.variables.refresh()
        saved = list(_tensors(self.parameters.argument(args, call.kwargs, "obj"), "", _DEPTH))
        with quiet(state):
            found = recorder.variables.found_among(saved)
        for slot, digest in found:
            recorder.measures.of_slot(state, "save.content", call, slot, digest=digest)
        self._left = (recorder, self._left[1] - len(found))


def _tensors(value: Any, name: str, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in a container, with its name; of a module that is saved as a whole, its parameters and buffers."""
    if issubclass(type(value), torch.Tensor):
        yield name, value
    elif issubclass(type(value), torch.nn.Module):
        for entries in (value._parameters, value._buffers, value._modules):
            for key, item in list(entries.items()):
                yield from _tensors(item, f"{name}.{key}", depth)
    elif depth:
        named = pairs(value)
        if named is None:
            named = [(str(place), item) for place, item in enumerate(sequence(value) or ())]
        for key, item in named:
            yield from _tensors(item, f"{name}.{key}", depth - 1)


def install(probe: Probe) -> None:
    """Observe both functions."""
    observe(probe, torch.save, Save())
    observe(probe, torch.load, Named("torch.load", "io"))
