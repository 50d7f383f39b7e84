"""`Module.load_state_dict`: which parameters and buffers it was given, and which it was not; and whether what it is
given has changed since `Module.state_dict` returned it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from .. import digest as content
from ..context import Call, ThreadState, unobservable
from ..storages import Counts
from ..walk import pairs
from .base import observe, watch
from .modes import Mode

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder
    from ..variable import Slot

MISSING, GIVEN, ITS_OWN, CHANGED = range(4)
"""A tensor that the state has no entry for; one that it has; one whose entry lies in the tensor's own memory, as in
what `state_dict()` returned, so that nothing is loaded; one whose entry lies in another parameter's memory, which was
written to since `state_dict()` last returned it.
"""
_ROWS = 20_000
"""Measures of a process after which no more are taken."""
_TIMES = 32
"""How often a module is looked at when it is loaded, or asked for its state: a target network may be in every step."""


class Load(Mode):
    """Says of every tensor of the module whether the state has something for it."""

    rare = "load"

    def __init__(self) -> None:
        super().__init__("load_state_dict")
        self._found: dict[int, dict[str, int]] = {}
        """For the open call the keys whose tensors are no copies; afterwards that cannot be seen."""
        self._left: tuple[object, int] = (None, 0)
        self._times: dict[tuple[str, int], int] = {}
        self._returned = Counts()
        """The version, plus one, that each tensor of a module had when `state_dict()` last returned it."""

    def returned(self, module: torch.nn.Module, *_: Any, **__: Any) -> None:
        """`state_dict()` returns the tensors of a module; it is called for each of its parts, too."""
        times = self._count("state", module)
        if times > _TIMES + 1:
            return
        for tensor in [*module._parameters.values(), *module._buffers.values()]:
            if tensor is not None and not tensor.is_inference():
                # From then on nothing is known of these tensors: an old version would say that they have changed.
                version = tensor._version + 1 if times <= _TIMES else 0
                self._returned.add(tensor, version - self._returned.of(tensor))

    def _is_kept(self, filled: Counts, given: Any, tensor: torch.Tensor) -> int:
        if not issubclass(type(given), torch.Tensor):
            return GIVEN
        if not given.is_inference() and filled.of(given) == given._version + 1:
            return GIVEN  # what `state_dict()` returned has been read into, as distributed checkpoints are
        if _is(given, tensor):
            return ITS_OWN
        version = 0 if given.is_inference() else self._returned.of(given)
        return CHANGED if version and version - 1 != given._version else GIVEN

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        if self._room(recorder) and not unobservable() and self._count("load", args[0]) <= _TIMES:
            given = dict(pairs(self.parameters.argument(args, call.kwargs, "state_dict")) or ())
            found = {key: self._is_kept(recorder.filled, given.get(key), tensor) for key, tensor in _tensors(args[0])}
            self._found = {call.seq: found}

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        super().after(recorder, state, call, args, result)
        recorder.sketches.loaded()
        recorder.attributes.stored(state, call, recorder.measures)
        found, self._found = self._found.get(call.seq), {}
        missing = getattr(result, "missing_keys", None)
        if found is None or type(missing) is not list:
            return
        given = _given(recorder, args[0], found | dict.fromkeys(missing, MISSING))
        self._left = (recorder, self._left[1] - len(given))
        for slot, what in given:
            recorder.measures.of_slot(state, "load.given", call, slot, float(what))

    def _count(self, what: str, module: torch.nn.Module) -> int:
        count = self._times[what, id(module)] = self._times.get((what, id(module)), 0) + 1
        return count

    def _room(self, recorder: Recorder) -> bool:
        if self._left[0] is not recorder:
            self._left = (recorder, _ROWS)
        return self._left[1] > 0


def _given(recorder: Recorder, module: torch.nn.Module, found: Mapping[str, int]) -> list[tuple[Slot, int]]:
    """For each tensor what it was given, by key; of several names of one tensor the one that gives most."""
    root = recorder.modules.info(recorder.modules.wrappers.unwrap(module)).root
    slots: dict[int, Slot] = {}
    for slot in root.slots if root is not None else ():
        slots.setdefault(id(slot.tensor()), slot)
    given: dict[int, int] = {}
    for key, tensor in _tensors(module):
        if id(tensor) in slots:
            seen = (found.get(key, GIVEN), given.get(id(tensor), MISSING))
            given[id(tensor)] = GIVEN if GIVEN in seen else max(seen)
    return [(slots[key], what) for key, what in given.items()]


def _tensors(module: torch.nn.Module, prefix: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and buffers by their keys in a state, read from what modules hold and not from methods of theirs."""
    for key, value in [*module._parameters.items(), *module._buffers.items()]:
        if value is not None and key not in module._non_persistent_buffers_set:
            yield prefix + key, value
    for name, child in list(module._modules.items()):
        if child is not None:
            yield from _tensors(child, f"{prefix}{name}.")


def _is(given: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Whether two tensors are the same numbers in the same memory."""
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
    """Observe both methods."""
    family = Load()
    observe(probe, torch.nn.Module.load_state_dict, family)
    watch(probe, torch.nn.Module.state_dict, family.returned)
