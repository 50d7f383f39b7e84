"""Mistakes without an effect are told from survivors by what was trained, bit by bit."""

from __future__ import annotations

import pytest
from training_story import DROPOUT, LINEAR, Loop, Recorder

from pytest_traincheck.selftest.identical import trained_alike

LOOP = Loop(buffers=("running_mean",))


def alike(recorder: Recorder, other: Loop) -> bool:
    return trained_alike(recorder.record(LOOP), recorder.record(other))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"logging": True},
        {"eval_no_grad": False},
        {"layers": (LINEAR, DROPOUT, DROPOUT)},
    ],
    ids=str,
)
def test_what_does_not_touch_a_number_is_the_same_training(recorder: Recorder, changes: dict[str, object]) -> None:
    assert alike(recorder, LOOP.but(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 7},
        {"skip_step": (3,)},
        {"stuck": ("fc1.weight",)},
        {"unreached": ("fc1.weight",)},
        {"zero_grad": "never"},
        {"loss_value": 0.25},
        {"eval_mode": False},
        {"steps": 4},
        {"ranks": 2},
    ],
    ids=str,
)
def test_what_moves_a_number_is_another_training(recorder: Recorder, changes: dict[str, object]) -> None:
    assert not alike(recorder, LOOP.but(**changes))


def test_every_rank_counts(recorder: Recorder) -> None:
    together, apart = Loop(ranks=2), Loop(ranks=2, synced=False)
    assert trained_alike(recorder.record(together), recorder.record(together))
    assert not trained_alike(recorder.record(together), recorder.record(apart))
