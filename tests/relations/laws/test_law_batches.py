"""Batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest
from law_verdict import Verdict, verdict
from training_story import Loop, Measured, Story, Training

if TYPE_CHECKING:
    from training_story import Recorder


def of_batch(name: str, value: float) -> Story:
    """A measure of each batch."""
    return lambda t: [Measured(batch=lambda _: t.measure(name, value)).tell(t)]


def of_forward(measures: Mapping[str, float], *, mean: str = "") -> Story:
    """Measures of each forward pass, and of each backward pass over how many numbers a mean goes."""

    def story(t: Training) -> None:
        def within(_: int) -> None:
            for name, value in measures.items():
                t.measure(name, value)

        def means(_: int) -> None:
            if mean:
                t.measure(f"loss.means={mean}")

        Measured(forward=within, backward=means).tell(t)

    return story


NAMES = ("ViewsDiffer", "DataUntouched", "RowsAgree", "NoSquareMeans", "InputsChange")
LOOPS = [(name, Loop(), "silent") for name in NAMES]
STORIES = [
    ("ViewsDiffer", of_batch("batch.repeated", 0.0), "holds"),
    ("ViewsDiffer", of_batch("batch.repeated", 1.0), "broken"),
    ("DataUntouched", of_batch("stored.Digits.images", 0.0), "holds"),
    ("DataUntouched", of_batch("stored.Digits.images", 0.5), "broken"),
    ("RowsAgree", of_forward({"input.rows.a": 8.0, "input.rows.b": 8.0}), "holds"),
    ("RowsAgree", of_forward({"input.rows.a": 8.0, "input.rows.b": 1.0}), "broken"),
    ("RowsAgree", of_forward({"input.rows.a": 8.0}), "silent"),
    ("NoSquareMeans", of_forward({"input.rows.a": 8.0}, mean="8"), "holds"),
    ("NoSquareMeans", of_forward({"input.rows.a": 8.0}, mean="64"), "broken"),
    ("InputsChange", of_forward({"kept.a": 0.0, "kept.b": 0.1}), "holds"),
    ("InputsChange", of_forward({"kept.a": 0.0, "kept.b": 0.9}), "broken"),
    ("InputsChange", of_forward({"kept.b": 0.9}), "silent"),
]


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_stories(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story)) == said
