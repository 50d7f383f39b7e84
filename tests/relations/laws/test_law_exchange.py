"""Collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from law_verdict import Verdict, verdict
from trace_builder import tensor
from training_story import Loop, Measured, Story, Training

if TYPE_CHECKING:
    from training_story import Recorder


def reduced(*, size: int = 3, result: int = 7) -> Story:
    """Ranks that reduce a tensor; its size and its result on all ranks but the first."""

    def story(t: Training) -> None:
        def within(step: int) -> None:
            numel, left = (size, result) if t.rank else (3, 7)
            given = {"tensor": tensor(numel), "group": {"tuple": [0, 1]}, "async_op": False}
            with t.call("torch.distributed.all_reduce", type="collective", args=given):
                t.measure("collective.result", digest=left + step)

        Measured(forward=within).tell(t)

    return story


STORIES = [
    ("SameCollectives", reduced(), "holds"),
    ("SameCollectives", reduced(size=4), "broken"),
    ("SameResults", reduced(), "holds"),
    ("SameResults", reduced(result=9), "broken"),
]


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_two_ranks(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story, ranks=2)) == said


@pytest.mark.parametrize("name", ["SameCollectives", "SameResults"])
def test_of_one_rank(name: str, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(Loop())) == "silent"
