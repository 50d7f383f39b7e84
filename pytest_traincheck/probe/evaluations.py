"""What models draw while no gradients are recorded: in evaluation, at whatever step, and in rollouts and samples.

From the end of one such call of a model to the end of the next, so that it makes no difference whether a model draws
itself or the loop between two calls of its parts. What comes before the first one after a step, and behind the last,
belongs to the loop.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from . import cuda_generators
from . import digest as content
from .advance import Advance
from .context import Call, ThreadState, quiet, unobservable
from .walk import tensors

if TYPE_CHECKING:
    from .recorder import Recorder

RESULT = "evaluated.result"
"""The hash of a tensor that a model has returned."""
RESULTS = 256
"""Tensors that are hashed in all."""
_DEPTH, _EACH = 3, 4
"""How deep in containers a model's tensors are looked for, and how many of them."""

EVALUATIONS = 16
"""Steps behind which such calls are looked at."""
CALLS = 512
"""Calls that are looked at in all; of the step in which they are used up nobody knows how much is drawn."""


class Evaluations:
    """Writes measures of the numbers drawn in such calls."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._advance = Advance()
        self._steps = 0
        self._after = 0
        """The number of steps after which the evaluation began that is being looked at."""
        self._left = EVALUATIONS
        self._calls_left = CALLS
        self._results_left = RESULTS

    def stepped(self) -> None:
        """An optimizer has stepped."""
        self._steps += 1

    def entered(self, state: ThreadState) -> None:
        """A model is called."""
        if self._after == self._steps or not self._left or torch.is_grad_enabled() or unobservable():
            return
        self._left -= 1
        self._after = self._steps
        with quiet(state):
            self._advance.begin()

    def returned(self, state: ThreadState, call: Call) -> None:
        """A model that was called returns."""
        if self._after != self._steps or not self._steps or self._calls_left < 0:
            return
        if torch.is_grad_enabled() or unobservable():
            return
        self._calls_left -= 1
        known = self._calls_left >= 0
        with quiet(state):
            found = self._advance.look() if known else _nobody_knows()
        for name, count in found.items():
            if count or name == "torch":
                self._recorder.measures.take(state, f"evaluated.{name}", call, count)

    def result(self, state: ThreadState, call: Call, result: Any) -> None:
        """A model that was called without gradients has returned something, in any step."""
        if not self._results_left or torch.is_grad_enabled() or unobservable():
            return
        with quiet(state):
            found = [tensor for _, tensor in tensors("", result, _DEPTH)][: min(_EACH, self._results_left)]
            hashes = [content.digest(readable) for item in found if (readable := content.local(item)) is not None]
        self._results_left -= len(found)
        for hashed in hashes:
            self._recorder.measures.take(state, RESULT, call, digest=hashed)

    @property
    def over(self) -> bool:
        """Whether nothing is looked at any more."""
        return not self._left and not self._results_left and self._after != self._steps

    @property
    def looks(self) -> bool:
        """Whether an evaluation is being looked at."""
        return 0 < self._steps == self._after and self._calls_left >= 0

    def hold(self) -> None:
        """What is drawn from here on does not count, until `go_on`."""
        self._advance.hold()

    def go_on(self) -> None:
        """Count again."""
        self._advance.go_on()


def _nobody_knows() -> dict[str, float]:
    return dict.fromkeys(("torch", "cuda") if cuda_generators.initialised() else ("torch",), math.inf)
