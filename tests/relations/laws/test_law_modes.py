"""Train mode and eval mode."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from law_verdict import Verdict, verdict
from training_story import DROPOUT, LINEAR, NORM, Loop, Story, Training

if TYPE_CHECKING:
    from training_story import Recorder


def asked(*, evaluation: bool, norm: bool = False) -> Story:
    """A model that is called below `no_grad` after each step."""

    def story(t: Training) -> None:
        model = t.model(layers=(LINEAR, NORM if norm else DROPOUT))
        optimizer = t.adamw(list(model.parameters.values()))
        for _ in range(3):
            t.mode(model, True)
            t.zero_grad(optimizer)
            t.forward(model)
            t.backward(model)
            t.step(optimizer)
            if evaluation:
                t.mode(model, False)
            with t.no_grad():
                t.forward(model, line="evaluate")

    return story


LOOPS = [
    ("TrainsInTrainMode", Loop(), "holds"),
    ("TrainsInTrainMode", Loop(back_to_train=False), "broken"),
    ("TrainsInTrainMode", Loop(layers=(LINEAR,), back_to_train=False), "silent"),
    ("NoDropoutInEvaluation", Loop(evaluate_after=()), "silent"),
    ("NoBatchStatisticsInEvaluation", Loop(), "silent"),
    ("NoGradientsInEvaluation", Loop(), "holds"),
    ("NoGradientsInEvaluation", Loop(eval_no_grad=False), "broken"),
    ("NoGradientsInEvaluation", Loop(evaluate_after=()), "silent"),
]
STORIES = [
    ("NoDropoutInEvaluation", asked(evaluation=True), "holds"),
    ("NoDropoutInEvaluation", asked(evaluation=False), "broken"),
    ("NoBatchStatisticsInEvaluation", asked(evaluation=True, norm=True), "holds"),
    ("NoBatchStatisticsInEvaluation", asked(evaluation=False, norm=True), "broken"),
]


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_stories(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story)) == said


@pytest.mark.parametrize(
    ("settings", "training", "said"),
    [
        ({}, True, "holds"),
        ({"momentum": None}, True, "holds"),
        ({"momentum": 0.0}, True, "broken"),
        ({"momentum": 0.0}, False, "silent"),
        ({"track_running_stats": False}, True, "silent"),
    ],
)
def test_running_statistics(settings: dict[str, Any], training: bool, said: Verdict, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from real_training import recorded

    def train() -> None:
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4, **settings), torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(net.train(training).parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.randn(8, 3)).pow(2).mean().backward()
            optimizer.step()

    assert verdict("StatisticsMove", recorded(train, tmp_path)) == said
