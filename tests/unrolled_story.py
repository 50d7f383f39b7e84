"""The story of a training that calls its model for each element of a sequence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from trace_builder import Model
from training_story import Training


@dataclass(frozen=True)
class Unrolled:
    """A model that is called for each element of a sequence in every step, with the state that it returned or with
    something else; what `backward` measures, and how often the model is called in evaluation after each step.
    """

    length: Callable[[int], int]
    """How many elements the sequence of a step has, by the step's number."""
    fed_back: bool = True
    backward: Callable[[Training, int], None] | None = None
    """Called within `backward`, with the length of the step's sequence."""
    evaluations: int = 0

    def tell(self, t: Training) -> None:
        """The loop in the process `t`."""
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        t.mode(net, True)
        for step in range(6):
            length = self.length(step)
            t.zero_grad(optimizer)
            t.batch()
            for number in range(length):
                t.forward(net, within=partial(self._look, t, number))
            if self.backward is None:
                t.loss()
                t.backward(net)
            else:
                t.backward(net, within=partial(self.backward, t, length))
            t.step(optimizer)
            if self.evaluations:
                self._evaluate(t, net)

    def _look(self, t: Training, number: int) -> None:
        t.measure("fed.back", float(self.fed_back and number > 0))

    def _evaluate(self, t: Training, net: Model) -> None:
        t.mode(net, False)
        with t.no_grad():
            for _ in range(self.evaluations):
                t.forward(net)
        t.mode(net, True)
