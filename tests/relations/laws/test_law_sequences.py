"""Targets, masks, checkpoints and generation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from law_verdict import Verdict, verdict
from training_story import F, Loop, Measured, Story, Training

if TYPE_CHECKING:
    from training_story import Recorder


def shifted(by: float) -> Story:
    """Targets that are so many tokens ahead."""

    def story(t: Training) -> None:
        Measured(loss=lambda _: t.measure("loss.shift", by)).tell(t)

    return story


def padded(*, mask: float | None, tokens: float = 0.3) -> Story:
    """A model of transformers that is given tokens and a mask of which such shares are 0."""

    def story(t: Training) -> None:
        model = t.root("Bert", {"w.weight": (4, 3)}, kind="transformers.Bert")
        t.symbols[0]["library"] = "transformers"

        def looked_at(_: int) -> None:
            shares = {"input_ids": (tokens, 50.0)} | ({} if mask is None else {"attention_mask": (mask, 1.0)})
            for name, (zeros, largest) in shares.items():
                t.measure(f"input.rows.{name}", 8.0)
                t.measure(f"input.zero.{name}", zeros)
                t.measure(f"input.zero last.{name}", min(1.0, 2 * zeros))
                t.measure(f"input.zero first.{name}", 0.0)
                t.measure(f"input.smallest.{name}", 0.0)
                t.measure(f"input.largest.{name}", largest)

        Measured(forward=looked_at, model=model).tell(t)

    return story


def generated(added: float) -> Story:
    """`generate` with a limit of six tokens."""

    def story(t: Training) -> None:
        Loop().tell(t)
        with t.call("model.generate", type="generate", args={"max_new_tokens": 6}):
            t.measure("generate.new", added)

    return story


def checkpointed(*, preserve: bool, dropout: bool = True) -> Story:
    """A checkpoint in the forward pass."""

    def story(t: Training) -> None:
        def within(_: int) -> None:
            with t.call("torch.utils.checkpoint.checkpoint", type="checkpoint", args={"preserve_rng_state": preserve}):
                if dropout:
                    with t.call(F + "dropout", args={"p": 0.1, "training": True}):
                        pass

        Measured(forward=within).tell(t)

    return story


NAMES = ("TargetsOneAhead", "MaskHidesPadding", "MaskGiven", "NewTokens", "CheckpointDraws")
LOOPS = [(name, Loop(), "silent") for name in NAMES]
STORIES = [
    ("TargetsOneAhead", shifted(1.0), "holds"),
    ("TargetsOneAhead", shifted(0.0), "holds"),
    ("TargetsOneAhead", shifted(2.0), "broken"),
    ("TargetsOneAhead", shifted(-1.0), "broken"),
    ("MaskHidesPadding", padded(mask=0.3), "holds"),
    ("MaskHidesPadding", padded(mask=0.7), "broken"),
    ("MaskHidesPadding", padded(mask=0.7, tokens=0.0), "silent"),
    ("MaskGiven", padded(mask=0.3), "holds"),
    ("MaskGiven", padded(mask=None), "broken"),
    ("NewTokens", generated(6.0), "holds"),
    ("NewTokens", generated(25.0), "broken"),
    ("CheckpointDraws", checkpointed(preserve=True), "holds"),
    ("CheckpointDraws", checkpointed(preserve=False), "broken"),
    ("CheckpointDraws", checkpointed(preserve=False, dropout=False), "silent"),
]


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_stories(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story)) == said
