"""Gradients left over, and gradients thrown away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from law_verdict import Verdict, verdict
from training_story import Loop

if TYPE_CHECKING:
    from training_story import Recorder

LOOPS = [
    ("LeftOver", Loop(), "holds"),
    ("LeftOver", Loop(zero_grad="model"), "holds"),
    ("LeftOver", Loop(zero_grad="never"), "broken"),
    ("LeftOver", Loop(backward=False), "silent"),
    ("ThrownAway", Loop(microbatches=3), "holds"),
    ("ThrownAway", Loop(microbatches=3, zero_each=True), "broken"),
    ("ThrownAway", Loop(backward=False), "silent"),
]


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said
