"""One kind of mistake in this process, and the table of all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from .patching import Make, replace
from .tally import Tally

Plant = Callable[["Mutation"], None]
_Function = TypeVar("_Function", bound=Plant)

PLANTS: dict[str, Plant] = {}
"""What installs each kind of mistake, by the names of the catalogue."""


class Mutation:
    """A kind of mistake at work. Without `active` it only counts the places where it could have been made.

    `places` is how many there are in each process, where that was counted before; else 0.
    """

    def __init__(self, name: str, tally: Tally, *, active: bool, places: int = 0) -> None:
        self.name = name
        self._places = places
        self._tally = tally
        self._active = active

    def here(self) -> bool:
        """Whether to make the mistake at this place, which is counted either way."""
        if torch.compiler.is_compiling():
            return False  # what runs inside a compiled graph is not Python's to change
        self._tally.add(self.name)
        return self._active

    def replace(self, owner: Any, name: str, make: Make) -> None:
        """Put `make(original)` in the place of `owner.name`; nothing happens when there is no such attribute."""
        replace(owner, name, make)

    def half(self) -> int:
        """Half of the places of this process, at least one."""
        return max(1, self._places // 2)

    def planned(self) -> bool:
        """Whether the mistake is to be made at all; for preparations that are not counted."""
        return self._active


def plants(name: str) -> Callable[[_Function], _Function]:
    """Enter a function that installs a mistake into the table."""

    def enter(function: _Function) -> _Function:
        if name in PLANTS:
            raise ValueError(f"two functions plant {name!r}; give one of them another name")
        PLANTS[name] = function
        return function

    return enter
