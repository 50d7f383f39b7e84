"""Gradients left over, and gradients thrown away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from law_verdict import Verdict, verdict
from training_story import Loop, Story, Training

if TYPE_CHECKING:
    from training_story import Recorder


def turns(*, together: bool) -> Story:
    """Two models whose losses take turns; both optimizers step for each loss, or each for its own."""

    def story(t: Training) -> None:
        models = [t.model("Critic"), t.model("Maker")]
        optimizers = [t.adamw(list(model.parameters.values())) for model in models]
        for _ in range(3):
            for number, model in enumerate(models):
                for optimizer in optimizers:
                    t.zero_grad(optimizer)
                t.forward(model)
                t.backward(model)
                for optimizer in optimizers if together else optimizers[number : number + 1]:
                    t.step(optimizer)

    return story


LOOPS = [
    ("LeftOver", Loop(), "holds"),
    ("LeftOver", Loop(zero_grad="model"), "holds"),
    ("LeftOver", Loop(zero_grad="never"), "broken"),
    ("LeftOver", Loop(backward=False), "silent"),
    ("ThrownAway", Loop(microbatches=3), "holds"),
    ("ThrownAway", Loop(microbatches=3, zero_each=True), "broken"),
    ("ThrownAway", Loop(backward=False), "silent"),
    ("Fed", Loop(), "holds"),
    ("Fed", Loop(microbatches=3), "holds"),
    ("Fed", Loop(skip_step=(1,)), "holds"),
    ("Fed", Loop(backward=False), "silent"),
]
STORIES = [
    ("Fed", turns(together=False), "holds"),
    ("Fed", turns(together=True), "broken"),
]


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_stories(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story)) == said
