"""Walks over all tracked places, in which the compiled core looks at what is usual about them.

Each function gives the places that are left to Python, which are all of them without the core. One is given when all
before it have been looked at, and those behind it are looked at when the next one is asked for: so changes are written
in the order of the places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from .core import native

if TYPE_CHECKING:
    from .variable import Slot

VALUES, BUFFERS, STEP = range(3)
"""What is looked at: values that seem to have changed; buffers; everything, after a step of an optimizer."""
NOTHING: AbstractContextManager[Any] = nullcontext()
_NOBODY: set[int] = set()


def values(
    slots: list[Slot],
    what: int,
    emit: Any,
    outside: Any = None,
    own: set[int] = _NOBODY,
    optimized: set[int] = _NOBODY,
    around: AbstractContextManager[Any] = NOTHING,
) -> Iterator[Slot]:
    """Places of parameters and buffers. `own` to `optimized` are those of `Variables.look_after_step`; `around` is
    entered where any place is left.
    """
    place = 0 if native is None else native.values(slots, 0, what, emit, outside, own, optimized)
    if place < len(slots):
        with around:
            while place < len(slots):
                yield slots[place]
                place += 1
                if native is not None:
                    place = native.values(slots, place, what, emit, outside, own, optimized)


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


def measured(present: list[Any], norms: Sequence[float], emit: Any) -> Iterator[int]:
    """Which gradients of those with these norms are left to be looked at."""
    if native is None:
        yield from range(len(present))
        return
    place = native.measured(present, norms, 0, emit)
    while place < len(present):
        yield place
        place = native.measured(present, norms, place + 1, emit)
