"""What checkpoints hold, and what is made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from law_verdict import Verdict, verdict
from trace_builder import tensor
from training_story import Loop, Story, Training

if TYPE_CHECKING:
    from training_story import Recorder

MODEL = {"dict": {"fc1.weight": tensor(4, 3), "fc1.bias": tensor(4)}}
OPTIMIZER = {"dict": {"state": {"dict": {}}, "param_groups": {"list": []}}}
SCHEDULER = {"dict": {"last_epoch": 3}}
LOAD = "torch.nn.Module.load_state_dict"


def saved(**parts: object) -> Story:
    """A loop, at the end of which these parts are saved."""

    def story(t: Training) -> None:
        Loop().tell(t)
        with t.call("torch.save", type="io", args={"obj": {"dict": parts}}):
            pass

    return story


def read(content: object, *loads: str) -> Story:
    """A file is read, and these methods are called, before training."""

    def story(t: Training) -> None:
        with t.call("torch.load", type="io", returns=content):
            pass
        for name in loads:
            with t.call(name, type="mode"):
                pass
        Loop().tell(t)

    return story


WHOLE = {"dict": {"model": MODEL, "optimizer": OPTIMIZER}}
LOOPS = [(name, Loop(), "silent") for name in ("CheckpointWhole", "OptimizerLoaded", "ReadIsLoaded")]
STORIES = [
    ("CheckpointWhole", saved(model=MODEL, optimizer=OPTIMIZER, scheduler=SCHEDULER), "holds"),
    ("CheckpointWhole", saved(model=MODEL, optimizer=OPTIMIZER), "broken"),
    ("CheckpointWhole", saved(model=MODEL), "silent"),
    ("OptimizerLoaded", read(WHOLE, LOAD, "torch.optim.AdamW.load_state_dict"), "holds"),
    ("OptimizerLoaded", read(WHOLE, LOAD), "broken"),
    ("OptimizerLoaded", read(MODEL, LOAD), "silent"),
    ("ReadIsLoaded", read(MODEL, LOAD), "holds"),
    ("ReadIsLoaded", read(MODEL), "broken"),
    ("ReadIsLoaded", read({"dict": {"images": tensor(8, 3)}}), "silent"),
]


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_stories(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story)) == said
