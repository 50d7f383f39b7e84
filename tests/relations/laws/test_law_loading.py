"""What is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest
from law_verdict import Verdict, verdict
from trace_builder import tensor
from training_story import Loop, Measured, Story, Training

if TYPE_CHECKING:
    from training_story import Recorder

LOAD = "torch.nn.Module.load_state_dict"
ALL = {"fc1.weight": 1.0, "fc1.bias": 1.0, "fc2.weight": 1.0, "mean": 1.0}
COUNTED = "norm.num_batches_tracked"


def loaded(given: Mapping[str, float], *, after: bool = False, drawn: int = 0) -> Story:
    """A state is loaded before or after training, and so many weights are drawn after it."""

    def story(t: Training) -> None:
        model = t.model(buffers=("mean", COUNTED))
        variables = {name: item.variable for name, item in model.parameters.items()} | model.buffers
        if after:
            Measured(model=model).tell(t)
        with t.call(LOAD, type="mode", module=model.number):
            for name, value in given.items():
                t.measure("load.given", value, variable=variables[name])
        for _ in range(drawn):
            with t.call("torch.nn.init.normal_", type="init", args={"tensor": tensor(4, 3)}):
                pass
        if not after:
            Measured(model=model).tell(t)

    return story


NAMES = ("LoadsSomething", "LoadsTrained", "LoadsBuffers", "StateCopied", "LoadedStays")
LOOPS = [(name, Loop(), "silent") for name in NAMES]
STORIES = [
    ("LoadsSomething", loaded(ALL), "holds"),
    ("LoadsSomething", loaded(dict.fromkeys(ALL, 0.0)), "broken"),
    ("LoadsSomething", loaded(dict.fromkeys(ALL, 0.0) | {COUNTED: 1.0}), "broken"),
    ("LoadsSomething", loaded({COUNTED: 1.0}), "silent"),
    ("LoadsTrained", loaded(ALL, after=True), "holds"),
    ("LoadsTrained", loaded(ALL | {"fc2.weight": 0.0}, after=True), "broken"),
    ("LoadsTrained", loaded(ALL | {"fc2.weight": 0.0}), "silent"),
    ("LoadsBuffers", loaded(ALL), "holds"),
    ("LoadsBuffers", loaded(ALL | {"mean": 0.0}), "broken"),
    ("LoadsBuffers", loaded(ALL | {"mean": 0.0, "fc1.bias": 0.0}), "silent"),
    ("StateCopied", loaded(ALL), "holds"),
    ("StateCopied", loaded(ALL | {"fc1.weight": 3.0}), "broken"),
    ("LoadedStays", loaded(ALL), "holds"),
    ("LoadedStays", loaded(ALL | {"fc1.weight": 0.0}, drawn=1), "holds"),
    ("LoadedStays", loaded(ALL, drawn=1), "broken"),
    ("LoadedStays", loaded(ALL, drawn=1, after=True), "silent"),
]


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_stories(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story)) == said
