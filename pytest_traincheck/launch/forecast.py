"""How many runs are done, and how long the others will take."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection


class Forecast:
    """Counts runs in several threads. Times are those of `clock`, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._expected = 0
        self._begun: dict[int, float] = {}
        self._took: list[float] = []

    def expect(self, runs: int) -> None:
        """So many runs more are to come."""
        self._expected += runs

    def begin(self, thread: int) -> None:
        """Something begins in a thread, a run perhaps."""
        self._begun[thread] = self._clock()

    def end(self, thread: int) -> None:
        """It was a run, and has ended."""
        if thread in self._begun:
            self._took.append(self._clock() - self._begun.pop(thread))

    def text(self, going: Collection[int] = ()) -> str:
        """ "2 of 4 runs, about 40 s left"; empty where there is nothing to count, and no time before one run is done.

        `going` are the threads in which something goes on.
        """
        done = len(self._took)
        total = max(self._expected, done)
        if total < 2:
            return ""
        left = self._left(total - done, going)
        return f"{done} of {total} runs{f', about {left} left' if left else ''}"

    def _left(self, runs: int, going: Collection[int]) -> str:
        if not self._took or not runs:
            return ""
        usual, now = sum(self._took) / len(self._took), self._clock()
        gone = sum(min(usual, now - begun) for thread, begun in self._begun.items() if thread in going)
        seconds = max(1, math.ceil((runs * usual - gone) / max(1, min(len(going), runs))))
        return in_words(seconds)


def in_words(seconds: float) -> str:
    """ "40 s", "3 min": never less than what is said."""
    seconds = math.ceil(seconds)
    return f"{seconds} s" if seconds < 100 else f"{math.ceil(seconds / 60)} min"
