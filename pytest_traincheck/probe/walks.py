"""Walks over all tracked places, in which the compiled core looks at what is usual about them.

Each function gives the places that are left to Python, which are all of them without the core. One is given when all
before it have been looked at, and those behind it are looked at when the next one is asked for: so changes are written
in the order of the places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from . import digest as content
from .core import native

if TYPE_CHECKING:
    from .gpu import Seen
    from .variable import Slot

VALUES, BUFFERS, STEP = range(3)
"""What is looked at: values that seem to have changed; buffers; everything, after a step of an optimizer."""
NOTHING: AbstractContextManager[Any] = nullcontext()
NO_LOOKS: Mapping[int, Seen] = {}
NOBODY: set[int] = set()


def values(
    slots: list[Slot],
    what: int,
    emit: Any,
    outside: Any = None,
    own: set[int] = NOBODY,
    optimized: set[int] = NOBODY,
    around: AbstractContextManager[Any] = NOTHING,
    ahead: Mapping[int, Seen] = NO_LOOKS,
) -> Iterator[Slot]:
    """Places of parameters and buffers. `own` to `optimized` are those of `Variables.look_after_step`; `around` is
    entered where any place is left; `ahead` is what was found on other devices meanwhile.
    """
    place = 0 if native is None else native.values(slots, 0, what, emit, outside, own, optimized, ahead)
    if place < len(slots):
        with around:
            while place < len(slots):
                yield slots[place]
                place += 1
                if native is not None:
                    place = native.values(slots, place, what, emit, outside, own, optimized, ahead)


def far(slots: list[Slot], what: int, own: set[int] = NOBODY, optimized: set[int] = NOBODY) -> Iterable[torch.Tensor]:
    """Tensors of other devices that a walk of `values` looks at, as `digest.local` returns them."""
    if native is not None:
        found = native.far(slots, what, own, optimized)
        slots = [one for one in found if not isinstance(one, torch.Tensor)]
        if not slots:
            return found  # type: ignore[no-any-return]
    else:
        found = []
    return [
        *(one for one in found if isinstance(one, torch.Tensor)),
        *held(slots, lambda slot, tensor: _is_wanted(slot, tensor, what, own, optimized)),
    ]


def _is_wanted(slot: Slot, tensor: torch.Tensor, what: int, own: set[int], optimized: set[int]) -> bool:
    if what == BUFFERS:
        return slot.grad is None
    if what == STEP and (id(tensor) in own or id(tensor) not in optimized):
        return True
    return slot.var.state != content.UNSEEN and not slot.var.looks_same(tensor)


def held(
    slots: Iterable[Slot], wanted: Callable[[Slot, torch.Tensor], bool] = lambda *_: True
) -> Iterator[torch.Tensor]:
    """Tensors that places hold and that are `wanted`, as `digest.local` returns them."""
    for slot in slots:
        tensor = slot.tensor()
        if tensor is not None and wanted(slot, tensor) and (readable := content.local(tensor)) is not None:
            yield readable


def again(slots: list[Slot], emit: Any) -> Iterator[Slot]:
    """Places of which nothing is known any more."""
    place = 0 if native is None else native.again(slots, 0, emit)
    while place < len(slots):
        yield slots[place]
        place += 1
        if native is not None:
            place = native.again(slots, place, emit)


def gradients(
    slots: list[Slot],
    full: bool,
    emit: Any,
    present: list[Any],
    readables: list[torch.Tensor],
    lock: AbstractContextManager[Any],
) -> Iterator[Slot]:
    """Places of parameters whose gradients are looked at; those that are to be measured are put into the lists.
    `lock` keeps other threads from beginning to write gradients.
    """
    place = -1
    while True:
        with lock:
            place = native.gradients(slots, place + 1, full, emit, present, readables)
        if place >= len(slots):
            return
        yield slots[place]


def measured(present: list[Any], norms: Sequence[float], emit: Any, ahead: Mapping[int, Seen]) -> Iterator[int]:
    """Which gradients of those with these norms are left to be looked at; `ahead` as above."""
    if native is None:
        yield from range(len(present))
        return
    place = native.measured(present, norms, 0, emit, ahead)
    while place < len(present):
        yield place
        place = native.measured(present, norms, place + 1, emit, ahead)
