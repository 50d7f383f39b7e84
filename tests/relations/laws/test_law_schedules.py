"""When schedulers step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from law_verdict import Verdict, verdict
from training_story import Loop, Story, Training

if TYPE_CHECKING:
    from training_story import Recorder


def scheduled(*, each_pass: bool = False, step: bool = True) -> Story:
    """A scheduler is made, and steps with each pass, with each step or never."""

    def story(t: Training) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        t.measure("scheduler.made", optimizer=optimizer.number)
        for _ in range(4):
            t.zero_grad(optimizer)
            for _ in range(2):
                t.forward(model)
                t.backward(model)
                if each_pass:
                    t.schedule(optimizer)
            t.step(optimizer)
            if step:
                t.schedule(optimizer)

    return story


LOOPS = [
    ("SchedulerFirst", Loop(), "holds"),
    ("SchedulerFirst", Loop(schedule="before"), "broken"),
    ("SchedulerFirst", Loop(schedule="never"), "silent"),
    ("SchedulerTwice", Loop(microbatches=2), "holds"),
    ("SchedulerTwice", Loop(schedule="never"), "silent"),
    ("SchedulerTwice", Loop(skip_step=(2,)), "broken"),
    ("SchedulerIdle", Loop(), "holds"),
    ("SchedulerIdle", Loop(schedule="never"), "silent"),
]
STORIES = [
    ("SchedulerTwice", scheduled(), "holds"),
    ("SchedulerTwice", scheduled(each_pass=True), "broken"),
    ("SchedulerIdle", scheduled(), "holds"),
    ("SchedulerIdle", scheduled(step=False), "broken"),
]


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_stories(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story)) == said


@pytest.mark.parametrize("how", ["ended", "cut"])
def test_what_a_training_would_have_done_after_its_limit_is_not_known(how: str, recorder: Recorder) -> None:
    run = recorder.tell(scheduled(step=False))
    for process in run.processes:
        process.raw.meta["limit"] = {how: True}

    assert verdict("SchedulerIdle", run) == "silent"
