"""Turns: how many runs are under way at a time, and which of them were beside each other.

Whoever came first is served first, also where a later one would fit: a run that needs the machine for itself would wait
for ever otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_LOOK_S = 0.2


@dataclass(eq=False)
class Turn:
    """The time in which one run is under way. `trees` are those that it may write to."""

    places: int
    alone: bool
    trees: tuple[Path, ...] = ()
    others: list[Turn] = field(default_factory=list)
    """Those that were under way in a part of it."""

    @property
    def was_shared(self) -> bool:
        return bool(self.others)

    def shared_a_tree(self) -> bool:
        """Whether another run that was under way might have written to one of its trees."""
        return any(
            mine == its or mine.is_relative_to(its) or its.is_relative_to(mine)
            for other in self.others
            for its in other.trees
            for mine in self.trees
        )


class Turns:
    """Gives turns to runs in several threads, so that never more than `places` are taken."""

    def __init__(self, places: int) -> None:
        self.places = max(1, places)
        self._changed = threading.Condition()
        self._waiting: list[Turn] = []
        self._going: list[Turn] = []

    @contextmanager
    def turn(
        self, places: int, *, alone: bool, trees: tuple[Path, ...], look: Callable[[], None] = lambda: None
    ) -> Iterator[Turn]:
        """Wait for a turn, and have it for the length of the block; `alone` with no other beside it.

        `look` is called now and then while it waits, and ends the waiting by raising.
        """
        mine = Turn(min(places, self.places), alone, trees)
        with self._changed:
            self._waiting.append(mine)
            try:
                while self._waiting[0] is not mine or not self._fits(mine):
                    self._changed.wait(_LOOK_S)
                    look()
            finally:
                self._waiting.remove(mine)
                self._changed.notify_all()
            for other in self._going:
                other.others.append(mine)
                mine.others.append(other)
            self._going.append(mine)
        try:
            yield mine
        finally:
            with self._changed:
                self._going.remove(mine)
                self._changed.notify_all()

    def _fits(self, turn: Turn) -> bool:
        if turn.alone or any(other.alone for other in self._going):
            return not self._going
        return sum(other.places for other in self._going) + turn.places <= self.places
