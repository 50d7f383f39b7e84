"""Layers and losses that do something else than they seem to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from law_verdict import Verdict, verdict
from trace_builder import Layer
from training_story import LINEAR, NORM, F, Loop, Measured, Story, Training

if TYPE_CHECKING:
    from training_story import Recorder


def normed(*, frozen: bool, training: bool) -> Story:
    """A BatchNorm with a weight, called in train or in eval mode."""

    def story(t: Training) -> None:
        layer = Layer("norm", NORM.module, NORM.function, {"momentum": 0.1, "training": training})
        parameters = {"fc1.weight": (4, 3), "norm.weight": (4,)}
        model = t.model(parameters=parameters, frozen=("norm.weight",) if frozen else (), layers=(LINEAR,))
        number = t.module(model.root, "norm", layer.module)
        optimizer = t.adamw([model.parameters["fc1.weight"]])

        def within() -> None:
            with t.call(layer.module, type="module", module=number), t.call(layer.function, args=layer.args):
                pass

        for _ in range(3):
            t.zero_grad(optimizer)
            t.forward(model, within=within)
            t.backward(model)
            t.step(optimizer)

    return story


def flagged(name: str) -> Story:
    """A module with an attribute."""

    def story(t: Training) -> None:
        model = t.model()
        t.symbol("attribute", mod=model.number, values={name: False}, seq=1)
        Measured(model=model).tell(t)

    return story


def dropped(*rates: float) -> Story:
    """Dropout with one rate a step."""

    def story(t: Training) -> None:
        model = t.model(layers=(LINEAR,))
        number = t.module(model.root, "drop", "torch.nn.Dropout")
        optimizer = t.adamw(list(model.parameters.values()))
        for rate in rates:

            def within(rate: float = rate) -> None:
                with (
                    t.call("torch.nn.Dropout", type="module", module=number),
                    t.call(F + "dropout", args={"p": rate, "training": True}),
                ):
                    pass

            t.zero_grad(optimizer)
            t.forward(model, within=within)
            t.backward(model)
            t.step(optimizer)

    return story


LOOPS = [
    ("FrozenNormStill", Loop(), "silent"),
    ("LossNotZero", Loop(), "holds"),
    ("LossNotZero", Loop(loss_value=0.0), "broken"),
    ("LossNotZero", Loop(steps=2, loss_value=0.0, evaluate_after=()), "silent"),
    ("FlagsOfParameters", Loop(), "silent"),
    ("DropoutStays", Loop(layers=(LINEAR,)), "silent"),
]
STORIES = [
    ("FrozenNormStill", normed(frozen=True, training=False), "holds"),
    ("FrozenNormStill", normed(frozen=True, training=True), "broken"),
    ("FrozenNormStill", normed(frozen=False, training=True), "silent"),
    ("FlagsOfParameters", flagged("eps"), "holds"),
    ("FlagsOfParameters", flagged("requires_grad"), "broken"),
    ("DropoutStays", dropped(0.1, 0.1, 0.1), "holds"),
    ("DropoutStays", dropped(0.1, 0.0, 0.0), "broken"),
    ("DropoutStays", dropped(0.0, 0.0, 0.0), "silent"),
]


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_stories(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story)) == said
