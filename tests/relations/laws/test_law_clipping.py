"""Clipping and loss scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from law_verdict import Verdict, verdict
from training_story import CLIP, LINES, Loop, Story, Training

if TYPE_CHECKING:
    from training_story import Recorder

def scaled(*, unscale: bool = True, steps: bool = True, norm: float = 5.0, scale: float = 65536.0) -> Story:
    """A loop with a gradient scaler and clipping."""

    def story(t: Training) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        for _ in range(5):
            t.zero_grad(optimizer)
            t.forward(model)
            with t.call("torch.amp.GradScaler.scale", type="scaler"):
                t.measure("scaler.unscaled", 0.5)
            t.backward(model, within=lambda: t.measure("backward.root", 0.5 * scale))
            if unscale:
                with t.call("torch.amp.GradScaler.unscale_", type="scaler"):
                    pass
            with t.call(CLIP, type="clip", args={"max_norm": 1.0}, value=norm, line=LINES["clip"]):
                pass
            with t.call("torch.amp.GradScaler.step", type="scaler"):
                if steps:
                    t.step(optimizer)

    return story


LOOPS = [
    ("ClipComplete", Loop(), "holds"),
    ("ClipComplete", Loop(microbatches=3), "holds"),
    ("ClipComplete", Loop(clip_after_step=True), "broken"),
    ("ClipComplete", Loop(clip=None), "silent"),
    ("ClipsNothing", Loop(clip=None), "silent"),
    ("ClipScaled", Loop(), "silent"),
    ("StepsSkipped", Loop(), "silent"),
]
STORIES = [
    ("ClipScaled", scaled(), "holds"),
    ("ClipScaled", scaled(unscale=False), "broken"),
    ("ClipScaled", scaled(unscale=False, scale=1.0), "silent"),
    ("ClipsNothing", scaled(), "holds"),
    ("ClipsNothing", scaled(norm=0.0), "broken"),
    ("StepsSkipped", scaled(), "holds"),
    ("StepsSkipped", scaled(steps=False), "broken"),
]


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_stories(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story)) == said
