"""Which steps of a long training are observed: the first ones, then one in so many, and what is rare between them.

Between two observed steps that lie far apart every function is as it is without the probe, and between others its hooks
are called and do nothing; only the steps of the optimizer that ends an iteration are counted. When the probe wakes,
nothing is known of what happened meanwhile: each variable is seen for the first time. An observed step is whole, from
the end of the step before to its own. What is rare (an evaluation, a checkpoint, a state that is loaded) wakes the
probe until training goes on, and holds no part of a training step. An optimizer that is made, or gets a state, begins a
training, of which the first steps are observed again.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections import deque
from statistics import median
from time import perf_counter
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import torch

from .context import ThreadState, quiet, unobservable, unseen
from .switches import Switches

if TYPE_CHECKING:
    from .patch import Patches
    from .recorder import Recorder

VARIABLE = "TRAINCHECK_SAMPLING"
OBSERVED, UNOBSERVED = "steps.observed", "steps.unobserved"
"""Measures outside of every call. The number of the step that is observed from here on, and of the first one that was
not: what follows the last step came before.
"""
CONSTRUCT, RESUME = "construct", "resume"
"""Kinds of rare calls with which a training begins."""
AGAIN = 8
"""Steps of a training that are observed when it begins again."""
ENTRIES = 64
"""Calls of models that are looked at in an evaluation."""
_FIRST_EVERY, _MOST = 8, 4096
"""One step in so many, until it is known what observing costs, and at most."""
_TIMED = 15
"""Steps of which the median tells how long one takes."""
_APART = 16
"""Steps that lie at least between two rare calls of one kind that wake the probe."""
_PATIENCE = 4
_BRIEF = 64
"""Steps for fewer of which at a time functions keep the code that tells of their calls."""


class Sampling(Switches):
    """Sends the probe to sleep and wakes it.

    Args:
        every: one step in so many; `None`: as many as keep the time that observing takes under `share`.
        head: first steps, all of which are observed.
        share: part of the time of a training, between 0 and 1.
    """

    def __init__(self, recorder: Recorder, patches: Patches, every: int | None, head: int, share: float) -> None:
        self.asleep = False
        self.entries_left = 0
        """Calls of models that are yet to be looked at before the probe goes back to sleep; 0 where it does not wait
        for training to go on."""
        self.every = every or _FIRST_EVERY
        self._recorder = recorder
        self._patches = patches
        self._share = None if every else share
        self._timed = self._share is not None
        self._head = head
        self._base = 0
        self._iteration = 0
        """Steps of the whole training that have ended."""
        self._settled = False
        """Whether it is known which optimizer ends an iteration."""
        self._lead = 0
        self._order: list[int] = []
        """Optimizers, one for each step of the beginning."""
        self._others = 0
        """Steps of other optimizers since the last of the lead."""
        self._others_usual = 1
        self._again: dict[str, int] = {}
        """Iteration from which on a rare call wakes the probe again, by its kind."""
        self._inside = 0
        self.slept = False
        """Whether the probe has slept before, so that nothing is measured in every step any more."""
        self._marked = True
        self._rate: tuple[float | None, int] = (None, 0)
        self._since = 0.0
        self._whole = False
        """Whether the time since `_since` is that of one whole step."""
        self._observed: deque[float] = deque(maxlen=_TIMED)
        self._unobserved: deque[float] = deque(maxlen=_TIMED)

    # steps

    def ended(self, state: ThreadState, number: int) -> None:
        """A step of the optimizer with this number was observed."""
        if not self._settled:
            self._order.append(number)
            self._settle(state)
        elif number == self._lead:
            self._iterated(state)
        else:
            self._other()

    def begins_unseen(self, code: CodeType) -> None:
        """Before a step that is not observed. A class may call the step of its base class, which has hooks of its own,
        and a step that raised has never ended.
        """
        if self._inside and _frames_of(code) < 2:
            self._inside = 0
        self._inside += 1

    def ended_unseen(self, state: ThreadState, optimizer: Any) -> None:
        """A step that was not observed has ended."""
        self._inside = max(0, self._inside - 1)
        if self._inside:
            return
        if self._recorder.optimizers.number(optimizer) != self._lead:
            self._other()
            return
        self._mark()
        self._iterated(state, optimizer)

    def _iterated(self, state: ThreadState, optimizer: Any = None) -> None:
        now = perf_counter() if self._timed else 0.0
        if self._whole and self._timed:
            (self._unobserved if self.asleep else self._observed).append(now - self._since)
        self._iteration += 1
        self._others_usual, self._others = max(self._others_usual, self._others), 0
        wanted = self._wanted() or (self.asleep and self._turns(optimizer))
        self._whole = True
        if wanted and self.asleep:
            self._since = now
            self._wake(state)
        elif not wanted and not self.asleep:
            self._sleep()
            self._since = perf_counter() if self._timed else 0.0
            if self._observed:
                self._observed[-1] += self._since - now  # falling asleep is part of what observing costs
        else:
            self._since = now

    def _wanted(self) -> bool:
        """Whether the step that begins now is to be observed."""
        if self._share is not None and self._iteration % self.every == 0:
            self.every = self._affordable()
        if self._share is not None and self.every == 1:
            return self._iteration % (4 * AGAIN) != 0  # what a step takes that is not observed may change
        return self._iteration % self.every == 0

    def _affordable(self) -> int:
        """One step in so many, as a power of two: ranks that come to other numbers have steps in common."""
        if not self._observed or not self._unobserved or self._share is None:
            return self.every
        usual = median(self._unobserved)
        need = (median(self._observed) - usual) / (self._share * usual) if usual > 0 else 1.0
        wanted = int(min(2 ** math.ceil(math.log2(max(need, 1.0))), _MOST))
        # Nothing is changed for a need that is near the border between two powers.
        return self.every if wanted < self.every and need > 0.4 * self.every else wanted

    def _turns(self, optimizer: Any) -> bool:
        """Whether the learning rate goes another way than it did, up, down or not at all: a schedule has come to its
        next phase.
        """
        groups = getattr(optimizer, "param_groups", None)
        rate = groups[0].get("lr") if groups else None
        if not isinstance(rate, (int, float)):
            return False
        before, way = self._rate
        now = way if before is None else (rate > before) - (rate < before)
        self._rate = rate, now
        return before is not None and now != way and self._may_wake("rate")

    def _other(self) -> None:
        self._others += 1
        if self.asleep and self._others > _PATIENCE * self._others_usual * max(self.every, AGAIN):
            # The lead has come to its end, and another one has taken over.
            self._others = 0
            self._wake(self._recorder.threads)
            self._begin_again()

    # beginnings

    def _settle(self, state: ThreadState) -> None:
        """End the beginning when it was long enough. The lead is found as the reader of the trace does."""
        counts = {number: self._order.count(number) for number in dict.fromkeys(self._order)}
        first = {number: self._order.index(number) for number in counts}
        regular = [number for number, count in counts.items() if 20 * count >= max(counts.values())]
        lead = max(regular, key=lambda number: first[number])
        if self._order[-1] != lead or counts[lead] < self._head:
            return
        begin = first[lead]
        before = sum(count for number, count in counts.items() if number not in set(self._order[begin:]))
        self._lead, self._settled = lead, True
        self._others_usual = max(1, math.ceil((len(self._order) - before) / counts[lead]))
        self._iteration = self._base + before + counts[lead] - 1
        self._order = []
        self._iterated(state)

    def _begin_again(self) -> None:
        self._settled, self._order = False, []
        self._base, self._head = self._iteration, AGAIN
        self._whole, self._rate = False, (None, 0)

    # rare calls

    def rare(self, state: ThreadState, kind: str) -> bool:
        """Before a call that is rare; whether it is observed."""
        begins = kind in (CONSTRUCT, RESUME)
        if not self._settled or not (self.asleep or begins) or self._inside:
            return not self.asleep
        if not self._may_wake(kind):
            return not self.asleep
        if self.asleep:
            if not self._wake(state):
                return False
            self.entries_left = 0 if begins else ENTRIES
            self._whole = False
        if begins:
            self.entries_left = 0
            self._begin_again()
        return True

    def _may_wake(self, kind: str) -> bool:
        """What comes all the time is not rare, whatever it is."""
        if self._iteration < self._again.get(kind, 0):
            return False
        self._again[kind] = self._iteration + max(self.every, _APART)
        return True

    def goes_on(self) -> None:
        """Training goes on after a rare call: what comes now belongs to a step of which the beginning was not seen."""
        if self.entries_left:
            self.entries_left = 0
            self._sleep()

    def called(self, module: torch.nn.Module) -> None:
        """A model is called after a rare call."""
        if not self.entries_left:
            return
        if self.entries_left == 1 or (torch.is_grad_enabled() and getattr(module, "training", True)):
            self.goes_on()
        else:
            self.entries_left -= 1

    # sleep

    def _sleep(self) -> None:
        recorder = self._recorder
        recorder.measures.end()
        recorder.sketches.end()
        self.slept = True
        self._marked = False
        self.asleep = True
        self._patches.sleep(brief=self.every < _BRIEF)

    def _wake(self, state: ThreadState) -> bool:
        if unobservable():
            return False
        self._mark()
        self._patches.wake()
        self.asleep, self._inside = False, 0
        recorder = self._recorder
        recorder.measures.take(state, OBSERVED, None, float(self._iteration))
        recorder.values_moved = True
        recorder.variables.refresh()
        recorder.variables.forget()
        self._look_again(state)
        return True

    def _look_again(self, state: ThreadState) -> None:
        emit = self._recorder.emitter(state, None)
        with quiet(state):
            self._recorder.variables.look_again(emit)
        self._recorder.optimizers.look_again(emit)

    def look_on(self, state: ThreadState) -> None:
        """The compiled core has woken the probe, and leaves the rest of what it looks at to Python."""
        with unseen(self._recorder, "after a step that is not observed"):
            self._look_again(state)

    def _mark(self) -> None:
        """Say that steps are not observed. That is said when the first of them has ended, or the next is observed:
        whoever reads the trace while it grows knows then that all calls around the last one are there.
        """
        if not self._marked:
            self._marked = True
            self._recorder.measures.take(self._recorder.threads, UNOBSERVED, None, float(self._iteration))

    def as_meta(self) -> dict[str, Any]:
        """What `meta.json` says of it."""
        return {"steps": max(self._iteration, len(self._order)), "every": self.every}

    def of_child(self) -> None:
        """In a forked child, which is observed as a process of its own."""
        if self.asleep:
            self._patches.wake()


def _frames_of(code: CodeType) -> int:
    frame: FrameType | None = sys._getframe(1)
    count = 0
    while frame is not None:
        count += frame.f_code is code
        frame = frame.f_back
    return count


def sampling(recorder: Recorder, patches: Patches) -> Sampling | None:
    """What the launcher asks for in `TRAINCHECK_SAMPLING`; `None`: every step is observed."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    asked = json.loads(text)
    return Sampling(recorder, patches, asked.get("every"), int(asked["head"]), float(asked.get("share") or 0.05))
