"""Parameters: their memory, their beginnings, and what steps make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from law_verdict import Verdict, verdict
from trace_builder import FALSE, NONZERO, Model, Optimizer, digest_of
from training_story import Loop, Story, Training

if TYPE_CHECKING:
    from training_story import Recorder


def steps(t: Training, optimizer: Optimizer, model: Model, times: int = 1) -> None:
    """So many steps."""
    for _ in range(times):
        t.zero_grad(optimizer)
        t.forward(model)
        t.backward(model)
        t.step(optimizer)


def met(*, shares: bool = False, initialised: float = 1.0) -> Story:
    """A model whose parameters are looked at for the first time."""

    def story(t: Training) -> None:
        model = t.model()
        for parameter in model.parameters.values():
            t.measure("parameter.rms", 1.0, variable=parameter.variable)
            t.measure("parameter.initialised", initialised, variable=parameter.variable)
        if shares:
            t.measure("parameter.shares", 1.0, variable=model.parameters["fc2.weight"].variable)
        steps(t, t.adamw(list(model.parameters.values())), model)

    return story


def undone(back: bool) -> Story:
    """After each step a weight is written back, or not."""

    def story(t: Training) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        weight = model.parameters["fc1.weight"].variable
        for _ in range(6):
            before = t.digest(weight)
            steps(t, optimizer, model)
            if back:
                t.change(weight, NONZERO, before)

    return story


def alike(same: bool) -> Story:
    """Two weights that begin with the same values, or not."""

    def story(t: Training) -> None:
        shapes = {"a.weight": (4, 3), "b.weight": (4, 3)}
        with patch("trace_builder.digest_of", lambda *parts: 7 if same else digest_of(*parts)):
            model = t.model(parameters=shapes)
        for parameter in model.parameters.values():
            t.measure("parameter.rms", 1.0, variable=parameter.variable)
            t.measure("parameter.mean", 0.1, variable=parameter.variable)
        steps(t, t.adamw(list(model.parameters.values())), model)

    return story


def frozen(after: int) -> Story:
    """A weight that is frozen after so many steps."""

    def story(t: Training) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        weight = model.parameters["fc1.weight"]
        for step in range(5):
            if step == after:
                t.change(weight.flag, FALSE, 0)
            steps(t, optimizer, model)

    return story


LOOPS = [
    ("OwnMemory", Loop(), "silent"),
    ("InitialisedOnce", Loop(), "silent"),
    ("StepStays", Loop(), "holds"),
    ("StepStays", Loop(steps=2), "silent"),
    ("FrozenBeforeTraining", Loop(), "silent"),
]
STORIES = [
    ("OwnMemory", met(), "holds"),
    ("OwnMemory", met(shares=True), "broken"),
    ("InitialisedOnce", met(initialised=2.0), "holds"),
    ("InitialisedOnce", met(initialised=9.0), "broken"),
    ("StepStays", undone(back=False), "holds"),
    ("StepStays", undone(back=True), "broken"),
    ("BeginsDifferent", alike(same=False), "holds"),
    ("BeginsDifferent", alike(same=True), "broken"),
    ("FrozenBeforeTraining", frozen(after=0), "holds"),
    ("FrozenBeforeTraining", frozen(after=3), "broken"),
]


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_stories(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story)) == said
