"""The default generators of CUDA devices, from which a function draws that is given none of its own.

Each is a counter (Philox, Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): a seed and an offset that
a kernel moves on by what each of its threads takes. Both lie in the memory of the host, so looking at them waits for no
device. Nothing here initialises CUDA, and where torch is built without it there is nothing to look at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from . import digest as content
from .context import unobservable

State = tuple[int, int]
"""Seed and offset of a generator."""

_CUDA: bool = torch.backends.cuda.is_built()  # type: ignore[no-untyped-call]
_SIZE = 16
"""Bytes of a state; another version may have another layout."""


def initialised() -> bool:
    """Whether there is anything to look at: not before the program uses CUDA, nor in a process forked after that."""
    return _CUDA and bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def states() -> tuple[State, ...]:
    """The state of each device's default generator; empty where there is none, or where they cannot be read now."""
    if not initialised():
        return ()
    found = [state_of(generator) for generator in torch.cuda.default_generators]
    return tuple(state for state in found if state is not None) if None not in found else ()


def state_of(generator: Any) -> State | None:
    """The state of one generator of a CUDA device; None while a graph is being captured, to which it belongs then."""
    if not initialised() or unobservable():
        return None
    try:
        state = generator.get_state()
    except RuntimeError:  # A capture in another thread, or on another stream.
        return None
    if state.numel() != _SIZE:
        return None
    seed, offset = state.view(torch.int64).tolist()
    return seed, offset


def digest() -> int:
    """One hash of what is drawn next, see `telling`; 0 where the states cannot be read."""
    found = states()
    return hashed(telling(found, torch.cuda.current_device())) if found else 0


def hashed(found: Sequence[State]) -> int:
    """One hash of states in this order."""
    return content.digest(torch.tensor(found, dtype=torch.int64, device="cpu"))


def telling(found: Sequence[State], current: int) -> list[State]:
    """The states of the generators that have drawn since they were seeded, or that of the current device if none has.

    In order of their numbers and not of the devices: each rank has a device of its own and draws from one of many, and
    the others may never have been seeded. Two ranks that draw the same numbers are to have the same state.
    """
    return sorted(state for state in found if state[1]) or [found[current]]


def moved(before: Sequence[State], now: Sequence[State]) -> float:
    """By how much all offsets have grown; infinite where one was set anew or put back, or where nobody could look."""
    if not before or [seed for seed, _ in before] != [seed for seed, _ in now]:
        return math.inf
    steps = [late - early for (_, early), (_, late) in zip(before, now, strict=True)]
    return float(sum(steps)) if min(steps) >= 0 else math.inf
