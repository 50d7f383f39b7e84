"""Settings of optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from law_verdict import Verdict, verdict
from trace_builder import Model, Optimizer
from training_story import Loop, Story, Training

if TYPE_CHECKING:
    from training_story import Recorder


def decayed(*, norm: float, scale: str = "norm.weight") -> Story:
    """Two groups: weights with decay, a bias without, and a norm with a decay of its own choice."""

    def story(t: Training) -> None:
        model = t.model(parameters={"fc.weight": (4, 3), "fc.bias": (4,), scale: (4,)})
        values = {"lr": 0.01, "weight_decay": 0.1}
        groups = [[model.parameters["fc.weight"]], [model.parameters["fc.bias"]], [model.parameters[scale]]]
        hyper = [values, {**values, "weight_decay": 0.0}, {**values, "weight_decay": norm}]
        optimizer = t.optimizer("torch.optim.AdamW", groups, hyper)
        stepped(t, model, optimizer)

    return story


def stepped(t: Training, model: Model, optimizer: Optimizer, times: int = 4) -> None:
    """So many steps."""
    for _ in range(times):
        t.zero_grad(optimizer)
        t.forward(model)
        t.backward(model)
        t.step(optimizer)


def empty(*held: int) -> Story:
    """Groups of an optimizer that hold so many parameters."""

    def story(t: Training) -> None:
        model = t.model()
        stepped(t, model, t.adamw(*(list(model.parameters.values())[:number] for number in held)))

    return story


def frozen(*rates: float) -> Story:
    """Groups with these learning rates."""

    def story(t: Training) -> None:
        model = t.model()
        parameters = list(model.parameters.values())
        groups = [parameters[:1], parameters[1:]]
        stepped(t, model, t.optimizer("torch.optim.AdamW", groups, [{"lr": rate} for rate in rates]))

    return story


def cycled(by_step: bool) -> Story:
    """A one-cycle schedule, stepped with each step or once."""

    def story(t: Training) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        for step in range(6):
            stepped(t, model, optimizer, 1)
            if by_step or step == 5:
                t.schedule(optimizer, kind="torch.optim.lr_scheduler.OneCycleLR")

    return story


LOOPS = [
    ("RateNotZero", Loop(), "holds"),
    ("RateNotZero", Loop(lr=0.0), "broken"),
    ("RateNotZero", Loop(steps=2, lr=0.0), "silent"),
    ("OptimizerNotEmpty", Loop(), "holds"),
    ("DecayWithoutVectors", Loop(), "silent"),
    ("ScheduledByBatch", Loop(), "silent"),
]
STORIES = [
    ("RateNotZero", frozen(0.0, 0.1), "holds"),
    ("RateNotZero", frozen(0.0, 0.0), "broken"),
    ("RateNotZero", frozen(0.1, -0.1), "broken"),
    ("OptimizerNotEmpty", empty(3, 0), "holds"),
    ("OptimizerNotEmpty", empty(0, 0), "broken"),
    ("DecayWithoutVectors", decayed(norm=0.0), "holds"),
    ("DecayWithoutVectors", decayed(norm=0.1), "broken"),
    ("ScheduledByBatch", cycled(by_step=True), "holds"),
    ("ScheduledByBatch", cycled(by_step=False), "broken"),
]


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_stories(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story)) == said
