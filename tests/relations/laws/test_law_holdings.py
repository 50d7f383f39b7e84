"""What optimizers hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from law_verdict import Verdict, verdict
from training_story import Loop, Story, Training

if TYPE_CHECKING:
    from training_story import Recorder


def two(second: tuple[str, ...]) -> Story:
    """Two optimizers that step in turn; what the second one holds."""

    def story(t: Training) -> None:
        model = t.model()
        every = list(model.parameters.values())
        one = t.adamw(every[:2])
        other = t.adamw([model.parameters[name] for name in second])
        for _ in range(3):
            t.zero_model(model)
            t.forward(model)
            t.backward(model)
            t.step(one)
            t.step(other)

    return story


def passed(*, loaded: bool) -> Story:
    """Gradients reach a second model that no optimizer holds, which was loaded or not."""

    def story(t: Training) -> None:
        model, other = t.model(), t.model("Features")
        if loaded:
            t.load(other, model)
        optimizer = t.adamw(list(model.parameters.values()))
        for _ in range(3):
            t.zero_model(model)
            t.forward(model)
            t.forward(other)
            t.backward(model)
            t.backward(other)
            t.step(optimizer)

    return story


def written(every: int) -> Story:
    """An optimizer holds points of its own; what is made of them is written into the model every so many steps."""

    def story(t: Training) -> None:
        model, points = t.model(), t.model("Points")
        optimizer = t.adamw(list(points.parameters.values()))
        for number in range(1, 9):
            t.zero_model(model)
            t.forward(model)
            t.backward(model)
            t.step(optimizer)
            for parameter in model.parameters.values() if number % every == 0 else ():
                t.move(parameter)

    return story


def copies(*, given: bool) -> Story:
    """An optimizer holds copies that require no gradient; what they are given right before a step is not looked at."""

    def story(t: Training) -> None:
        model, points = t.model(), t.model("Points", frozen=("fc1.weight", "fc1.bias", "fc2.weight"))
        optimizer = t.adamw(list(points.parameters.values()))
        for _ in range(3):
            t.zero_model(model)
            t.forward(model)
            t.backward(model)
            t.step(optimizer, also=list(points.parameters.values()) if given else ())

    return story


LOOPS = [
    ("Unheld", Loop(), "holds"),
    ("Unheld", Loop(frozen=("fc1.weight",)), "holds"),
    ("Unheld", Loop(held=("fc1.weight", "fc1.bias")), "broken"),
    ("Unheld", Loop(backward=False), "silent"),
    ("Unreached", Loop(), "holds"),
    ("Unreached", Loop(unreached=("fc2.weight",)), "broken"),
    ("Unreached", Loop(steps=1, unreached=("fc2.weight",)), "silent"),
    ("Idle", Loop(), "holds"),
    ("Idle", Loop(unreached=("fc1.weight", "fc1.bias", "fc2.weight")), "broken"),
    ("Unmoved", Loop(), "holds"),
    ("Unmoved", Loop(stuck=("fc2.weight",)), "broken"),
    ("Unmoved", Loop(stuck=("fc1.bias",)), "holds"),
    ("Unmoved", Loop(lr=0.0), "silent"),
]
STORIES = [
    ("HeldTwice", two(("fc2.weight",)), "holds"),
    ("HeldTwice", two(("fc1.weight", "fc2.weight")), "broken"),
    ("Unheld", passed(loaded=True), "holds"),
    ("Unheld", passed(loaded=False), "broken"),
    ("Idle", copies(given=True), "holds"),
    ("Idle", copies(given=False), "broken"),
    ("Unheld", written(every=1), "holds"),
    ("Unheld", written(every=5), "broken"),
]


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_stories(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story)) == said
