"""Ends a run after so many steps, as if the user's code had left it there: between two calls, by `SystemExit`.

Steps are those of the optimizer that ends an iteration. What stands behind its last step (a scheduler, `zero_grad`, an
average of the weights) still belongs to the iteration, so that the end comes with what begins the next one: a batch
that is fetched, a call of a model, `backward`, or a step. Only then these functions are exchanged for ones that leave;
up to there nothing is done but counting. The trace has ended by then: what the user's code does while it is left is
not recorded.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch.utils.data import dataloader

from .in_place import Hooks
from .meeting import Meeting
from .modules import has_parameters

if TYPE_CHECKING:
    from .install import Probe
    from .optimizers import OptimizerInfo

VARIABLE = "TRAINCHECK_LIMIT"
_TRIES = 3
"""How often one thread is told to leave: code may catch what it is told by."""
_FEW = 16
"""Steps for which an optimizer that was made may wait for its first, at least."""
_NONE, _LEAST, _TIMES = 256, 64, 8
"""Backward passes after which no step is expected any more: without any step so far; at least, and in times of those
that there were between two steps.
"""


class Limit:
    """Counts steps and, when there were enough, leaves. The methods do nothing in a forked child.

    Args:
        steps: after how many steps; `None`: any number.
        until: seconds since the epoch, after which the run ends with the step that is under way; `None`: never.
    """

    def __init__(self, probe: Probe, steps: int | None, until: float | None, run_dir: Path) -> None:
        self.armed = False
        """Whether the last step has ended, so that what begins the next one leaves."""
        self.ended = False
        self._probe = probe
        self._steps = steps
        self._until = until
        self._run_dir = run_dir
        self._meeting = Meeting(run_dir)
        self._pid = os.getpid()
        self._counts: dict[int, int] = {}
        """Steps by the number of the optimizer, in the order in which they were seen first."""
        self._made: dict[int, weakref.ref[Any]] = {}
        self._begun: set[int] = set()
        self._backwards = 0
        self._usual = 0
        self._thread: threading.Thread | None = None
        """Which one took the last step."""
        self._told: dict[int, int] = {}
        self._lock = threading.RLock()

    # counting

    @property
    def taken(self) -> int:
        """Steps of the optimizer that ends an iteration; it is found as the reader of the trace does."""
        return self._counts[self._lead()] if self._counts else 0

    @property
    def steps_in_all(self) -> int:
        """Steps of any optimizer."""
        return sum(self._counts.values())

    def made(self, optimizer: OptimizerInfo) -> None:
        """An optimizer was made by its constructor; a wrapper around another one, which never steps, has none."""
        self._made[optimizer.id] = optimizer.ref

    def begins(self, number: int) -> None:
        """Before a step of an optimizer, also within that of another one."""
        self._begun.add(number)

    def stepped(self, number: int) -> None:
        """A step has ended, or a scaler of gradients has left one out."""
        self._begun.add(number)
        self._counts[number] = self._counts.get(number, 0) + 1
        if self.armed or number != self._lead():
            return
        self._usual, self._backwards = max(self._usual, self._backwards), 0
        taken = self._counts[number]
        last = self._meeting.last(taken, self._until) if self._until is not None else None
        in_time = last is None or taken < last
        if in_time and (self._steps is None or taken < self._steps or self._waits(taken, self._steps)):
            return
        self._arm()

    def backward(self) -> None:
        """An outermost `backward` begins. Where no step comes any more, the run ends all the same: code that has lost
        its steps would never do so.
        """
        self._backwards += 1
        most = max(_LEAST, _TIMES * self._usual) if self._counts else _NONE
        if self._steps is not None and not self.armed and self._backwards > most:
            self._arm()

    def _lead(self) -> int:
        most = max(self._counts.values())
        return [number for number, count in self._counts.items() if 20 * count >= most][-1]

    def _waits(self, taken: int, steps: int) -> bool:
        """Whether an optimizer is there that has not stepped yet: it may be the one that ends the iteration."""
        if taken >= steps + max(steps, _FEW):
            return False
        return any(ref() is not None for number, ref in self._made.items() if number not in self._begun)

    # leaving

    def _arm(self) -> None:
        self.armed = True
        with contextlib.suppress(OSError):
            self._meeting.through()
        self._thread = threading.current_thread()
        replace = self._probe.patches.replace
        replace(dataloader._BaseDataLoaderIter.__next__, Hooks(self._fetches, _nothing, _nothing))
        replace(torch.nn.Module.__call__, Hooks(self._calls, _nothing, _nothing))
        for function in (torch.autograd.backward, torch.autograd.grad):
            replace(function, Hooks(self._trains, _nothing, _nothing))

    def _fetches(self, *_: Any, **__: Any) -> None:
        self.gate(trains=False)

    def _calls(self, module: torch.nn.Module, *_: Any, **__: Any) -> None:
        # A loss or a metric without parameters may be asked behind the last step, too.
        if self.armed and has_parameters(module):
            self.gate(trains=False)

    def _trains(self, *_: Any, **__: Any) -> None:
        self.gate(trains=True)

    def gate(self, *, trains: bool) -> None:
        """Before a call with which a next iteration begins: leave. Raises `SystemExit`.

        Until the training was left, calls in other threads, which may fetch ahead for it, go on unless they train.
        """
        if not self.armed or os.getpid() != self._pid or torch.compiler.is_compiling():
            return
        here, known = threading.current_thread(), self._thread
        if not (self.ended or trains or here is known or known is None or not known.is_alive()):
            return
        with self._lock:
            if not self.ended:
                self._end_trace()
        self._leave()

    def _end_trace(self) -> None:
        recorder = self._probe.recorder
        self.ended = True
        try:
            if recorder is not None:
                state = recorder.threads
                while state.stack:
                    recorder.end_raised(state, state.stack[-1])
            self._meeting.hold()
        except Exception as error:  # noqa: BLE001 - a failure of the probe must never reach the user's code
            if recorder is not None:
                recorder.failed("ending at the limit", error)
        self._probe.leaving()

    def _leave(self) -> NoReturn:
        thread = threading.get_ident()
        self._told[thread] = self._told.get(thread, 0) + 1
        if self._told[thread] <= _TRIES:
            # No class of our own: threads end without a word by this very one.
            raise SystemExit(0)
        # Whoever catches this again and again goes on for ever.
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(0)

    # beside

    def finished(self) -> None:
        """The trace ends: others need not wait for this process any more."""
        if self._counts and os.getpid() == self._pid:
            self._meeting.leave()

    def as_meta(self) -> dict[str, Any]:
        """What `meta.json` says of it."""
        return {
            "steps": self._steps,
            "taken": self.taken,
            "ended": self.ended,
            "through": self.armed,
            "local_world_size": self._meeting.size,
            "missing": self._meeting.missing,
        }

    def of_child(self) -> Limit:
        """In a forked child, which has steps of its own."""
        return Limit(self._probe, self._steps, self._until, self._run_dir)


def _nothing(*_: Any) -> None:
    """What leaves makes no token, so that nobody is told how it ended."""


def limit(probe: Probe, run_dir: Path) -> Limit | None:
    """What the launcher asks for in `TRAINCHECK_LIMIT`; `None`: a run ends by itself."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    asked = json.loads(text)
    return Limit(probe, asked.get("steps"), asked.get("until"), run_dir)
