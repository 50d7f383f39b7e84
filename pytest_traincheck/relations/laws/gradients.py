"""Gradients between steps: what is left over from an earlier one, and what is thrown away before its use.

`backward` adds to `.grad`. Forgetting `zero_grad`, calling it on the wrong object, too rarely or too often, between the
backward passes that one step is made of or after them, trains on other gradients than the loss has.
"""

from __future__ import annotations

import numpy as np

from pytest_traincheck.relations.accumulate import FRESH, Accumulate, Consumed, Used
from pytest_traincheck.relations.base import Examples, listed, variable_names
from pytest_traincheck.relations.laws.law import Law, Told, in_step, transferable
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Deviation, Place
from pytest_traincheck.trace import Run

_ZERO_GRAD = "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html"
_BACKWARD = "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html"


class LeftOver(Law):
    """Gradients of an earlier step are still there when the next one consumes them."""

    name = "LeftOver"
    subject = "torch.optim.Optimizer.zero_grad"
    says = "No gradient that an optimizer step consumes is left over from an earlier step"
    expected = "gradients are cleared between one step and the backward passes of the next"
    because = Reason(
        "gradients-left-over",
        "`backward` adds to the gradients that are there. Without `zero_grad` between two steps each step goes along "
        "the sum of all gradients so far, and not along that of its own batch.",
        _ZERO_GRAD,
        "Call `optimizer.zero_grad()` (or `model.zero_grad()`) once before the first `backward` of each step.",
    )
    right = "optimizer.zero_grad()\nloss.backward()\noptimizer.step()"
    wrong = "loss.backward()\noptimizer.step()"
    place = Place.ACCUMULATION
    depth = 2
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        classes = {process.optimizer_class[step.optimizer] for process in run.processes for step in process.steps}
        parts = [Accumulate().examples(Consumed(FRESH, name), run) for name in sorted(classes)]
        return transferable(Examples.concatenate(parts))

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)), 2)
        return Told(
            f"Gradients of an earlier step are in {names} when the optimizer steps {in_step(run, examples, broken)}: "
            "`zero_grad` is missing or misplaced.",
            "new gradients are added to those of earlier steps",
        )


class ThrownAway(Law):
    """All that a backward pass has computed is cleared before any step uses it."""

    name = "ThrownAway"
    subject = "torch.optim.Optimizer.zero_grad"
    says = "What a backward pass adds to gradients is used by an optimizer step before it is cleared"
    expected = "gradients add up over all backward passes of a step"
    because = Reason(
        "gradients-thrown-away",
        "What a backward pass adds to the gradients is lost if they are cleared before an optimizer steps: of several "
        "backward passes only the last one counts, or none.",
        _BACKWARD,
        "Call `zero_grad` once before the first `backward` of a step and nowhere else.",
        "The last micro-batches of an epoch may be dropped where they fill no step.",
    )
    right = "optimizer.zero_grad()\nfor part in batch.chunk(4):\n    (loss(part) / 4).backward()\noptimizer.step()"
    wrong = "for part in batch.chunk(4):\n    optimizer.zero_grad()\n    (loss(part) / 4).backward()\noptimizer.step()"
    place = Place.ACCUMULATION
    depth = 2
    deviation = Deviation.TOO_OFTEN

    def places(self, run: Run) -> Examples:
        return Accumulate().examples(Used(), run)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told(
            f"The gradients of {len(broken)} of {len(examples)} backward passes are cleared before any optimizer step "
            f"uses them, first {in_step(run, examples, broken)}: `zero_grad` is misplaced, or a step is missing.",
            "gradients of a backward pass are cleared before any step uses them",
        )
