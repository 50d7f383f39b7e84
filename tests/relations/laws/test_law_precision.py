"""Precision and finite numbers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from law_verdict import Verdict, verdict
from trace_builder import ZERO
from training_story import BACKWARD, Loop, Measured, Story, Training

if TYPE_CHECKING:
    from training_story import Recorder


def products(*kinds: str) -> Story:
    """A compiled graph with matrix products of these kinds."""

    def story(t: Training) -> None:
        def within(_: int) -> None:
            for kind in kinds:
                t.measure(f"compiled:torch.nn.functional.linear={kind}")

        Measured(forward=within).tell(t)

    return story


def gradients(*, nan: bool = False, zero: bool = False) -> Story:
    """A loop in which a gradient is not finite, or always 0."""

    def story(t: Training) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        for step in range(4):
            t.zero_grad(optimizer)
            t.forward(model)
            weight = model.parameters["fc2.weight"]
            clear = partial(t.change, weight.gradient, ZERO, 0) if zero else None
            without = ("fc2.weight",) if zero else ()
            t.backward(model, nan=("fc2.weight",) if nan and step == 2 else (), without=without, within=clear)
            t.step(optimizer)

    return story


def backwards(*, retain: bool = False, below: bool = False) -> Story:
    """A loop whose `backward` keeps its graph, or is called below autocast."""

    def story(t: Training) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        for _ in range(3):
            with t.context(autocast="bfloat16"):
                t.forward(model)
            with (
                t.context(autocast="bfloat16" if below else None),
                t.call(BACKWARD, type="autograd", args={"retain_graph": True if retain else None}),
            ):
                pass
            t.step(optimizer)

    return story


def scaled(t: Training) -> None:
    """Losses that are not finite, in steps that a gradient scaler may skip."""

    def asked(_: int) -> None:
        with t.call("torch.amp.GradScaler.step", type="scaler"):
            pass

    Measured(value=float("nan"), step=asked).tell(t)


def halved(t: Training) -> None:
    """A loop over weights in half precision."""
    Loop().tell(t)
    for symbol in t.symbols:
        if symbol["k"] == "var" and symbol["kind"] == "parameter":
            symbol["dtype"] = "bfloat16"


LOOPS = [
    ("WeightsInFull", Loop(), "holds"),
    ("ForwardUnderAutocast", Loop(), "silent"),
    ("BackwardOutsideAutocast", Loop(), "silent"),
    ("LossFinite", Loop(), "holds"),
    ("LossFinite", Loop(loss_value=float("nan")), "broken"),
    ("LossFinite", Loop(loss="torch.nn.functional.linear"), "silent"),
    ("GradientsFinite", Loop(), "holds"),
    ("GradientsNotZero", Loop(), "holds"),
    ("GradientsNotZero", Loop(backward=False), "silent"),
    ("KeepsNoGraph", Loop(backward=False), "silent"),
]
STORIES = [
    ("LossFinite", scaled, "silent"),
    ("WeightsInFull", halved, "broken"),
    ("ForwardUnderAutocast", products("bfloat16", "bfloat16"), "holds"),
    ("ForwardUnderAutocast", products("bfloat16", "float32"), "broken"),
    ("ForwardUnderAutocast", products("float32"), "silent"),
    ("BackwardOutsideAutocast", backwards(), "holds"),
    ("BackwardOutsideAutocast", backwards(below=True), "broken"),
    ("GradientsFinite", gradients(nan=True), "broken"),
    ("GradientsNotZero", gradients(zero=True), "broken"),
    ("KeepsNoGraph", backwards(), "holds"),
    ("KeepsNoGraph", backwards(retain=True), "broken"),
]


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_stories(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story)) == said
