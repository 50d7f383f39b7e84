"""`Module.load_state_dict`: which parameters and buffers it was given, and which it was not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from .. import digest as content
from ..context import Call, ThreadState, unobservable
from ..walk import pairs
from .base import observe
from .modes import Mode

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder
    from ..variable import Slot

MISSING, GIVEN, ITS_OWN = 0, 1, 2
"""A tensor that the state has no entry for, one that it has, and one whose entry lies in the tensor's own memory, as
in what `state_dict()` returned: nothing is loaded then.
"""
_ROWS = 20_000
"""Measures of a process after which no more are taken: a target network may be loaded in every step."""


class Load(Mode):
    """Says of every tensor of the module whether the state has something for it."""

    def __init__(self) -> None:
        super().__init__("load_state_dict")
        self._own: dict[int, frozenset[str]] = {}
        """For each open call the keys whose tensor is what it is loaded into; afterwards that cannot be seen."""
        self._left: tuple[object, int] = (None, 0)

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        if self._room(recorder) and not unobservable():
            given = dict(pairs(self.parameters.argument(args, call.kwargs, "state_dict")) or ())
            own = frozenset(key for key, tensor in _tensors(args[0]) if _is(given.get(key), tensor))
            self._own = {call.seq: own}

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        super().after(recorder, state, call, args, result)
        own, self._own = self._own.get(call.seq), {}
        missing = getattr(result, "missing_keys", None)
        if own is None or type(missing) is not list:
            return
        given = _given(recorder, args[0], frozenset(missing), own)
        self._left = (recorder, self._left[1] - len(given))
        for slot, found in given:
            recorder.measures.of_slot(state, "load.given", call, slot, float(found))

    def _room(self, recorder: Recorder) -> bool:
        if self._left[0] is not recorder:
            self._left = (recorder, _ROWS)
        return self._left[1] > 0


def _given(
    recorder: Recorder, module: torch.nn.Module, missing: frozenset[str], own: frozenset[str]
) -> list[tuple[Slot, int]]:
    """For each tensor what it was given under one of its names at least."""
    root = recorder.modules.info(recorder.modules.wrappers.unwrap(module)).root
    slots = recorder.variables.by_tensor(root) if root is not None else {}
    found: dict[int, int] = {}
    for key, tensor in _tensors(module):
        if id(tensor) in slots:
            seen = MISSING if key in missing else ITS_OWN if key in own else GIVEN
            before = found.get(id(tensor), seen)
            found[id(tensor)] = GIVEN if GIVEN in (seen, before) else max(seen, before)
    return [(slots[key], given) for key, given in found.items()]


def _tensors(module: torch.nn.Module, prefix: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and buffers by their keys in a state, read from what modules hold and not from methods of theirs."""
    for key, value in [*module._parameters.items(), *module._buffers.items()]:
        if value is not None and key not in module._non_persistent_buffers_set:
            yield prefix + key, value
    for name, child in list(module._modules.items()):
        if child is not None:
            yield from _tensors(child, f"{prefix}{name}.")


def _is(given: Any, tensor: torch.Tensor) -> bool:
    """Whether two tensors are the same numbers in the same memory."""
    if not issubclass(type(given), torch.Tensor):
        return False
    one, other = content.local(given), content.local(tensor)
    if one is None or other is None or one.layout is not torch.strided or other.layout is not torch.strided:
        return False
    return (
        bool(one.numel())
        and one.shape == other.shape
        and one.data_ptr() == other.data_ptr()
        and one.stride() == other.stride()
        and one.device == other.device
    )


def install(probe: Probe) -> None:
    """Observe the method."""
    observe(probe, torch.nn.Module.load_state_dict, Load())
