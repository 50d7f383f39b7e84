"""How far the global random generators have moved: how many numbers were drawn, whichever functions drew them.

Those of torch (CPU), Python and numpy are Mersenne twisters: 624 words of 32 bits and a place among them; when the last
word is taken, all are made anew. Where the words are the same as before, the way between two states is the way between
two places. Else a generator of our own goes on from the old words until it comes to the new ones, which takes a few
milliseconds for a million numbers. A state that cannot be reached, as after a seed, or only in too many steps, is one
of which nobody knows how many numbers are between. Those of CUDA devices count by themselves, see `cuda_generators`.
"""

from __future__ import annotations

import math
import random
import sys
from array import array
from typing import Any

import torch

from . import cuda_generators

_WORDS = 624
_SIZE = 5056
"""Bytes of the state of torch's generator; another version may have another layout."""
_LEFT, _NEXT, _STATE = 8, 16, 24
"""Where its fields begin: words that are left, the place of the next, the words themselves, as 64-bit integers."""

_FIRST_BLOCKS, _BLOCKS = 32, 8192
"""How many times 624 numbers are looked through at first, and for one state at most (5 million numbers)."""
_BLOCKS_IN_ALL = 20_000
"""The same for all states of a process: a tenth of a second."""

FIRST, UNKNOWN = math.nan, math.inf
"""Counts of a first look, and where a generator has moved and nobody knows how far."""


class Advance:
    """Counts what each global generator has drawn since the last look. Everything here is called under `quiet()`."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Any, int]] = {}
        self._set_aside: dict[str, float] = {}
        self._blocks_left = _BLOCKS_IN_ALL
        self._own: torch.Generator | None = None

    def begin(self) -> None:
        """Count from here on."""
        self._set_aside.clear()
        self._last = _states()

    def look(self, names: tuple[str, ...] | None = None) -> dict[str, float]:
        """Numbers of 32 bits drawn since the last look, by generator, of `cuda` steps of its counters: NaN at the
        first, infinite where it cannot be told.
        """
        found = {}
        for name, state in _states(names).items():
            before, self._last[name] = self._last.get(name), state
            found[name] = self._set_aside.pop(name, 0.0) + self._between(name, before, state)
        return found

    def hold(self) -> None:
        """What is drawn from here on, until `go_on`, does not count."""
        for name, count in self.look().items():
            self._set_aside[name] = count

    def go_on(self) -> None:
        """Count again."""
        self._last = _states()

    def _between(self, name: str, before: tuple[Any, int] | None, now: tuple[Any, int]) -> float:
        if before is None:
            return FIRST
        if name == "cuda":
            return cuda_generators.moved(before[0], now[0])
        blocks = 0 if _same(before[0], now[0]) else self._blocks(_words(before[0]), _words(now[0]))
        count = -1 if blocks is None else _WORDS * blocks + now[1] - before[1]
        return float(count) if count >= 0 else UNKNOWN

    def _blocks(self, old: torch.Tensor, new: torch.Tensor) -> int | None:
        """How often all words are made anew on the way from some to others."""
        own = self._set(old)
        if own is None:
            return None
        wanted = torch.tensor([_tempered(word) & 0x7FFFFFFF for word in new[:3].tolist()], device="cpu")
        done, size = 0, _FIRST_BLOCKS
        while done < _BLOCKS and self._blocks_left > 0:
            drawn = torch.empty(size * _WORDS, dtype=torch.int32, device="cpu").random_(generator=own)
            found = (drawn.view(size, _WORDS)[:, :3] == wanted).all(1).nonzero()
            self._blocks_left -= size
            if len(found):
                return done + int(found[0, 0]) + 1
            done += size
            size = min(4 * size, _BLOCKS - done)
        return None

    def _set(self, words: torch.Tensor) -> torch.Generator | None:
        """A generator of our own that has taken the last of these words."""
        if self._own is None:
            self._own = torch.Generator(device="cpu")
        state = self._own.get_state()
        if len(state) != _SIZE:
            return None
        state[_LEFT : _LEFT + 4].view(torch.int32)[0] = 1
        state[_NEXT:_STATE].view(torch.int64)[0] = _WORDS
        state[_STATE : _STATE + 8 * _WORDS].view(torch.int64).copy_(words)
        self._own.set_state(state)
        return self._own


def _states(names: tuple[str, ...] | None = None) -> dict[str, tuple[Any, int]]:
    """The words of each global generator, in a form of its own, and the place among them; of `cuda` the states."""
    found: dict[str, tuple[Any, int]] = {}
    if names is None or "torch" in names:
        state = torch.default_generator.get_state()
        if len(state) == _SIZE:
            left = int(state[_LEFT : _LEFT + 4].view(torch.int32)[0])
            found["torch"] = state[_STATE : _STATE + 8 * _WORDS].view(torch.int64), _WORDS + 1 - left
    if names is None or "python" in names:
        _, state_of_python, _ = random.getstate()
        found["python"] = state_of_python[:-1], state_of_python[-1]
    theirs = sys.modules.get("numpy.random")
    if theirs is not None and (names is None or "numpy" in names):
        kind, keys, place, *_ = theirs.get_state()
        if kind == "MT19937":
            found["numpy"] = keys.tobytes(), int(place)
    if (names is None or "cuda" in names) and cuda_generators.initialised():
        found["cuda"] = cuda_generators.states(), 0
    return found


def _same(first: Any, second: Any) -> bool:
    return torch.equal(first, second) if isinstance(first, torch.Tensor) else bool(first == second)


def _words(state: Any) -> torch.Tensor:
    if isinstance(state, torch.Tensor):
        return state
    words = array("I", state) if isinstance(state, bytes) else state
    return torch.tensor([*words], dtype=torch.int64, device="cpu")


def _tempered(word: int) -> int:
    """What a Mersenne twister returns for one of its words (Matsumoto and Nishimura 1998, section 2)."""
    word ^= word >> 11
    word ^= (word << 7) & 0x9D2C5680
    word ^= (word << 15) & 0xEFC60000
    return word ^ (word >> 18)
