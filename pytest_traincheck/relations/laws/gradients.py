"""Gradients between steps: what is left over from an earlier one, and what is thrown away before its use.

`backward` adds to `.grad`. Forgetting `zero_grad`, calling it on the wrong object, too rarely or too often, between the
backward passes that one step is made of or after them, trains on other gradients than the loss has.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pytest_traincheck.relations.accumulate import FRESH, Accumulate, Consumed, Used
from pytest_traincheck.relations.base import EMPTY, Examples, listed, variable_names
from pytest_traincheck.relations.laws.law import (
    Law,
    Told,
    each_process,
    first_of,
    in_step,
    table,
    times_broken,
    transferable,
)
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Deviation, Place
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.gradients import Gradients
from pytest_traincheck.trace.variables import Variables

_STEP = "https://docs.pytorch.org/docs/stable/optim.html#taking-an-optimization-step"
_SHARE = 0.25
"""Share of the steps in which passes are thrown away that is no end of an epoch any more."""
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
        _BACKWARD,
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
        "The last micro-batches of an epoch may be dropped where they fill no step, and SAM moves along the gradients "
        "of its first pass itself.",
    )
    right = "optimizer.zero_grad()\nfor part in batch.chunk(4):\n    (loss(part) / 4).backward()\noptimizer.step()"
    wrong = "for part in batch.chunk(4):\n    optimizer.zero_grad()\n    (loss(part) / 4).backward()\noptimizer.step()"
    place = Place.ACCUMULATION
    depth = 2
    deviation = Deviation.TOO_OFTEN

    def places(self, run: Run) -> Examples:
        return _often(run, Accumulate().examples(Used(), run))

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        lost = int((~examples.holds).sum())
        return Told(
            f"The gradients of {lost} of {len(examples)} backward passes are cleared before any optimizer step "
            f"uses them, first {in_step(run, examples, broken)}: `zero_grad` is misplaced, or a step is missing.",
            "gradients of a backward pass are cleared before any step uses them",
        )


class Fed(Law):
    """An optimizer steps although no backward pass has given its parameters gradients since its last step."""

    name = "Fed"
    subject = "torch.optim.Optimizer.step"
    says = "Before each step of an optimizer that uses gradients a backward pass gives its parameters new ones"
    expected = "new gradients for each step"
    because = Reason(
        "step-without-gradients",
        "A step without new gradients repeats the last one or does nothing. Where two optimizers step together, the "
        "one whose turn it is not takes what the loss of the other one leaves.",
        _STEP,
        "Let each optimizer step for its own loss alone: `optimizer_d.step()` after the loss of the discriminator.",
    )
    right = "loss_d.backward()\noptimizer_d.step()\nloss_g.backward()\noptimizer_g.step()"
    wrong = "loss_d.backward()\noptimizer_d.step()\noptimizer_g.step()  # the loss of the generator comes later"
    place = Place.ACCUMULATION
    depth = 2
    deviation = Deviation.TOO_OFTEN

    def places(self, run: Run) -> Examples:
        return each_process(run, _fed)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        name = process.names.optimizers[int(process.events["opt"][row])]
        return Told(
            f"`{name}` steps {times_broken(examples)} (first {in_step(run, examples, broken)}) although "
            "no backward pass has given its parameters gradients since its step before.",
            "steps without new gradients",
        )


def _fed(process: Process, position: int) -> Examples:
    """One example for each step of an optimizer from the first one on that has new gradients. Gradients that are 0 all
    along may have been computed.
    """
    variables = Variables.of(process)
    lines = variables.step_table
    if not len(lines.variable):
        return EMPTY
    gradient = variables.companion("gradient")[variables.first_name[lines.variable]]
    begin, end, previous = (lines.column(name) for name in ("begin", "end", "previous_end"))
    added = Gradients.of(process).additions(gradient, previous, end) > 0
    rows, of = np.unique(lines.column("row"), return_inverse=True)
    fed, unsure = (np.zeros(len(rows), dtype=bool) for _ in range(2))
    np.logical_or.at(fed, of, added)
    np.logical_or.at(unsure, of, (gradient > 0) & (variables.state(gradient, begin) == fmt.ZERO))
    owner = process.events["opt"][rows]
    known = fed | ~unsure
    for number in np.unique(owner).tolist():
        mine = np.flatnonzero(owner == number)
        known[mine] &= np.logical_or.accumulate(fed[mine])
    return table(process, position, fed[known], rows[known]) if known.any() else EMPTY


def _often(run: Run, examples: Examples) -> Examples:
    """The same places, of which those fail that lie in a process where many steps throw passes away: gradients that are
    looked at once, to measure how much parameters matter, are no steps.
    """
    holds = examples.holds.copy()
    for number, process in enumerate(run.processes):
        lost = (examples.process == number) & ~examples.holds
        windows = len(np.unique(process.window[examples.row[lost]]))
        if windows < max(_SHARE * process.windows, 1):
            holds[lost] = True
    return replace(examples, holds=holds)
