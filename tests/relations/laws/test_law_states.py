"""The state of optimizers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from law_verdict import Verdict, verdict
from training_story import Loop, Story, Training

if TYPE_CHECKING:
    from training_story import Recorder


def kept(held: float) -> Story:
    """An optimizer that holds state for so many parameters before its second step."""

    def story(t: Training) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))

        def counted(step: int) -> None:
            if step:
                t.measure("optimizer.held", held, optimizer=optimizer.number)
            t.measure("optimizer.left", 3.0, optimizer=optimizer.number)

        for step in range(3):
            t.zero_grad(optimizer)
            t.forward(model)
            t.backward(model)
            t.step(optimizer, within=partial(counted, step))

    return story


def made(each_step: bool) -> Story:
    """An optimizer for each step, or one for all."""

    def story(t: Training) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        for step in range(4):
            if each_step and step:
                optimizer = t.adamw(list(model.parameters.values()))
            t.zero_grad(optimizer)
            t.forward(model)
            t.backward(model)
            t.step(optimizer)

    return story


LOOPS = [("StateKept", Loop(), "silent"), ("OptimizerOnce", Loop(steps=1, evaluate_after=()), "silent")]
STORIES = [
    ("StateKept", kept(3.0), "holds"),
    ("StateKept", kept(0.0), "broken"),
    ("OptimizerOnce", made(each_step=False), "holds"),
    ("OptimizerOnce", made(each_step=True), "broken"),
]


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_stories(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story)) == said
