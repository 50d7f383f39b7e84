"""Losses of which both sides are trained from a step on that golden's runs never came to."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from judgements import sentences
from late_story import GOLDEN_STEPS, follow
from trace_builder import tensor
from training_story import Recorder, Training

RULE = "At most one side of what `torch.nn.functional.mse_loss` compares has gradients, in training."


@dataclass(frozen=True)
class Late:
    """A loss of which both sides move from a step on."""

    steps: int = GOLDEN_STEPS
    since: int = 1_000
    another: bool = False
    """Whether that is a loss at another line, which begins then."""

    def __call__(self, t: Training) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        t.mode(model, True)
        for step in range(self.steps):
            late = step >= self.since
            t.zero_grad(optimizer)
            t.batch()
            t.forward(model)
            self._loss(t, moves=late and not self.another)
            if late and self.another:
                self._loss(t, moves=True, line="forward")
            t.backward(model)
            t.step(optimizer)

    def _loss(self, t: Training, *, moves: bool, line: str = "loss") -> None:
        sides = {"input": tensor(8, 2, requires_grad=True), "target": tensor(8, 2, requires_grad=moves)}
        t.loss("torch.nn.functional.mse_loss", line=line, **sides)


@pytest.mark.parametrize(
    ("story", "told_at"),
    [(Late(90), []), (Late(90, since=60), [60]), (Late(90, since=60, another=True), [])],
    ids=["right", "wrong", "another loss"],
)
@pytest.mark.parametrize("piece", [67, 10_000])
def test_a_target_that_moves_later(recorder: Recorder, story: Late, told_at: list[int], piece: int) -> None:
    golden = recorder.learn(Late())
    assert RULE in sentences(golden, "DataFlow")
    path = recorder.path()
    t = Training(path, seed=5)
    story(t)
    t.write()
    found = follow(path, golden, piece=piece)[1]
    steps = [each.cause.step for each in found.incidents if each.cause.invariant.relation == "DataFlow"]
    assert steps == told_at, [each.cause.title for each in found.incidents]
