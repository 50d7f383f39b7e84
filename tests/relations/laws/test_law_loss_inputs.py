"""What losses are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from law_verdict import Verdict, verdict
from trace_builder import tensor
from training_story import F, Loop, Measured, Story, Training

if TYPE_CHECKING:
    from training_story import Recorder


def given(made_by: str, function: str) -> Story:
    """A loss whose input comes out of a function."""

    def story(t: Training) -> None:
        Measured(loss=lambda _: t.measure(f"loss.input={made_by}"), losses=(F + function,)).tell(t)

    return story


def targets(negative: float) -> Story:
    """A binary cross-entropy with a share of rows that hold targets below 0."""

    def story(t: Training) -> None:
        def looked_at(_: int) -> None:
            t.measure("input.rows.target", 8.0)
            t.measure("input.negative.target", negative)
            t.measure("input.above one.target", 0.0)

        Measured(loss=looked_at, losses=(F + "binary_cross_entropy_with_logits",)).tell(t)

    return story


def in_closure(t: Training) -> None:
    """An optimizer that asks for the loss several times in one step."""
    model = t.model()
    optimizer = t.adamw(list(model.parameters.values()))

    def closure() -> None:
        for _ in range(4):
            t.forward(model)
            t.loss(value=0.5)
            t.backward(model, within=lambda: t.measure("backward.root", 0.5))

    for _ in range(6):
        t.step(optimizer, closure=closure)


def accumulated(passes: int, divided_by: float) -> Story:
    """A loop in which so many passes of a loss of 0.5 meet in each step."""

    def story(t: Training) -> None:
        root = 0.5 / divided_by
        Measured(microbatches=passes, backward=lambda _: t.measure("backward.root", root), value=0.5).tell(t)

    return story


LOOPS = [
    ("LogitsWanted", Loop(), "silent"),
    ("LogarithmsWanted", Loop(), "silent"),
    ("NoNegativeLikelihood", Loop(), "holds"),
    ("NoNegativeLikelihood", Loop(loss_value=-0.5), "broken"),
    ("NoNegativeLikelihood", Loop(loss=F + "mse_loss"), "silent"),
    ("BinaryTargets", Loop(), "silent"),
    ("SameShape", Loop(loss=F + "mse_loss", loss_args={"input": tensor(8), "target": tensor(8)}), "holds"),
    ("SameShape", Loop(loss=F + "mse_loss", loss_args={"input": tensor(8, 1), "target": tensor(8)}), "broken"),
    ("SameShape", Loop(loss=F + "mse_loss", loss_args={"input": tensor(8, 4), "target": tensor(1)}), "holds"),
    ("SameShape", Loop(), "silent"),
    ("DivergenceMean", Loop(loss=F + "kl_div", loss_args={"reduction": "batchmean"}), "holds"),
    ("DivergenceMean", Loop(loss=F + "kl_div"), "broken"),
    ("DivergenceMean", Loop(), "silent"),
    ("AccumulatedMean", Loop(), "silent"),
]
STORIES = [
    ("LogitsWanted", given("other", "cross_entropy"), "holds"),
    ("LogitsWanted", given("log_softmax", "cross_entropy"), "holds"),
    ("LogitsWanted", given("softmax", "cross_entropy"), "broken"),
    ("LogitsWanted", given("sigmoid", "binary_cross_entropy_with_logits"), "broken"),
    ("LogitsWanted", given("sigmoid", "binary_cross_entropy"), "silent"),
    ("LogarithmsWanted", given("log_softmax", "nll_loss"), "holds"),
    ("LogarithmsWanted", given("softmax", "nll_loss"), "broken"),
    ("BinaryTargets", targets(0.0), "holds"),
    ("BinaryTargets", targets(1.0), "broken"),
    ("AccumulatedMean", accumulated(1, 1.0), "silent"),
    ("AccumulatedMean", accumulated(4, 4.0), "holds"),
    ("AccumulatedMean", accumulated(4, 1.0), "broken"),
    ("AccumulatedMean", accumulated(4, 16.0), "broken"),
    ("AccumulatedMean", accumulated(4, 3.0), "silent"),
    ("AccumulatedMean", in_closure, "silent"),
]


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_stories(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story)) == said
