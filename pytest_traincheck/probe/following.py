"""What training is given in the steps after measures have ended: two hashes and a number for each, so that a run can be
held against another one step by step for longer than anybody would want to measure it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import digest as content
from . import numerics
from .context import Call, ThreadState, quiet, unobservable, unseen
from .devices import number
from .switches import Switches

if TYPE_CHECKING:
    from .measures import Measures
    from .recorder import Recorder

STEPS = 128
"""Optimizer steps (of the optimizer that has taken most) that training is followed for."""
_MADE_BY_PYTHON = 1 << 9
"""The flag of a class that is not written in C, and may go (CPython's `Py_TPFLAGS_HEAPTYPE`)."""
LOSS, INPUT, RANDOM = "later.loss", "later.input", "later.rng."
"""The number that `backward` starts from, the hash of what a model is given in a training forward pass, and (with its
name behind) the hash of the state of a generator before a step.
"""


class Following(Switches):
    """Counts the steps, and knows which generators have moved: the state of one that stands still says nothing."""

    def __init__(self, recorder: Recorder, measures: Measures) -> None:
        self._recorder = recorder
        self._measures = measures
        self._states: dict[str, int] = {}
        self._moved: set[str] = set()
        self._terms: set[int] = set()
        """Kinds of autograd nodes, by their `id`, behind which a loss is one term; known to the compiled core."""
        self._last = STEPS
        self.wanted = False

    def seen(self, states: dict[str, int]) -> None:
        """Remember the states of generators before a step that is measured."""
        known = self._states
        self._moved.update(name for name, state in states.items() if known.get(name, state) != state)
        self._states = states

    def begin(self) -> None:
        """Measures have ended."""
        self.wanted = True

    def stepped(self, count: int) -> None:
        """An optimizer has made its step of that number."""
        self.wanted = self.wanted and count < self._last

    def loss(self, state: ThreadState, call: Call, value: Any) -> bool:
        """Write the number that a backward pass starts from; false where it is none."""
        found = number(state, value)
        if found is not None:
            self._measures.take(state, LOSS, call, found)
        return found is not None

    def given(self, state: ThreadState, call: Call, inputs: tuple[Any, ...]) -> None:
        """Write the hash of what a model is given, by whichever names."""
        if unobservable():
            return
        with quiet(state):
            hashed = content.digest_nested(inputs)
        self._measures.take(state, INPUT, call, digest=hashed)

    def look(self, state: ThreadState) -> dict[str, int]:
        """Hashes of the states of the generators that have moved."""
        with quiet(state):
            return numerics.random_states(self._moved)

    def random_states(self, state: ThreadState, call: Call, states: dict[str, int]) -> None:
        """Write what `look` has found."""
        for name, hashed in states.items():
            self._measures.take(state, f"{RANDOM}{name}", call, digest=hashed)

    def one_term(self, node: Any) -> None:
        """Remember that a loss with such a node behind it is one term. Of torch's own nodes, whose classes stay."""
        if not type(node).__flags__ & _MADE_BY_PYTHON:
            self._terms.add(id(type(node)))

    # What the compiled core tells of a step that it records by itself, where it cannot follow what is given alone.

    def called(self, state: ThreadState, call: Call, inputs: tuple[Any, ...]) -> None:
        """A model in training was called."""
        with unseen(self._recorder, "following a model's inputs"):
            self.given(state, call, inputs)

    def opened(self, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        """A backward pass was called."""
        with unseen(self._recorder, "following a backward pass"):
            family: Any = call.family
            family.opened(self._recorder, state, call, args)

    def weighed(self, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        """A backward pass was called, of which the loss is written."""
        with unseen(self._recorder, "following a backward pass"):
            family: Any = call.family
            family.weighed(self._recorder, state, call, args)

    def steps(self, state: ThreadState, call: Call, _: None) -> None:
        """An optimizer makes a step."""
        with unseen(self._recorder, "following random states"):
            self.random_states(state, call, self.look(state))

    def ended(self, state: ThreadState, call: Call, _: None) -> None:  # noqa: ARG002 - the core tells all in one way
        """An optimizer has made its step."""
        with unseen(self._recorder, "counting a step"):
            self._measures.stepped(call.opt)
