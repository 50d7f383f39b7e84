"""Ranks that train together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from law_verdict import Verdict, verdict
from training_story import DROPOUT, Loop, Measured, Story, Training

if TYPE_CHECKING:
    from training_story import Recorder

DDP = "torch.nn.parallel.DistributedDataParallel"


def inputs(same: bool) -> Story:
    """Ranks that are given the same batches, or each its own."""

    def story(t: Training) -> None:
        t.seed = 0
        who = 0 if same else t.rank
        Measured(forward=lambda step: t.measure("model.input", digest=100 * who + step + 1)).tell(t)

    return story


def drawn(same: bool) -> Story:
    """Ranks that draw the same random numbers, or each its own."""

    def story(t: Training) -> None:
        who = 0 if same else t.rank
        Measured(step=lambda step: t.measure("rng.torch", 4.0, digest=100 * who + step + 1)).tell(t)

    return story


def averaged(begin_alike: bool) -> Story:
    """Ranks whose gradients are the same, and that begin alike or not."""

    def story(t: Training) -> None:
        model = t.model()
        if not begin_alike:
            for parameter in model.parameters.values():
                t.move(parameter, "rank", t.rank)
        optimizer = t.adamw(list(model.parameters.values()))
        for _ in range(3):
            t.zero_grad(optimizer)
            t.forward(model)
            t.backward(model)
            t.step(optimizer)

    return story


def raw(beside: bool) -> Story:
    """A model that is called through its wrapper, and once without."""

    def story(t: Training) -> None:
        model = t.model(layers=(DROPOUT,))
        optimizer = t.adamw(list(model.parameters.values()))
        for step in range(3):
            t.zero_grad(optimizer)
            t.forward(model, wrapper="" if beside and step == 1 else DDP)
            t.backward(model)
            t.step(optimizer)

    return story


LOOPS = [
    ("RanksStayEqual", Loop(ranks=2), "holds"),
    ("RanksStayEqual", Loop(ranks=2, synced=False), "broken"),
    ("RanksStayEqual", Loop(synced=False), "silent"),
    ("NoRawModule", Loop(), "silent"),
]
STORIES = [
    ("RanksSeeOtherData", inputs(same=False), "holds"),
    ("RanksSeeOtherData", inputs(same=True), "broken"),
    ("RanksDrawOtherNumbers", drawn(same=False), "holds"),
    ("RanksDrawOtherNumbers", drawn(same=True), "broken"),
    ("RanksBeginEqual", averaged(begin_alike=True), "holds"),
    ("RanksBeginEqual", averaged(begin_alike=False), "broken"),
    ("NoRawModule", raw(beside=False), "holds"),
    ("NoRawModule", raw(beside=True), "broken"),
]


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_two_ranks(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story, ranks=2)) == said


@pytest.mark.parametrize("name", ["RanksSeeOtherData", "RanksDrawOtherNumbers", "RanksBeginEqual"])
def test_of_one_rank(name: str, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(Loop())) == "silent"


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said
