"""A training of which not every step was observed: what is seen is judged, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from late_story import GOLDEN_STEPS, Late, follow
from thinned import thin
from training_story import Recorder

from pytest_traincheck.online.follow import Follower
from pytest_traincheck.online.launch_group import MANY

HEAD = GOLDEN_STEPS + 2
WRONG = {
    "keeps gradients": "zero_grad",
    "does not clip": "clip_grad_norm_",
    "leaves one out": "unchanged",
    "calls backward twice": "backward",
    "stays in eval": "eval mode",
    "writes in evaluation": "embed.weight",
}


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(every=st.integers(2, 40), steps=st.integers(HEAD + 1, 250), piece=st.integers(5, 900))
def test_a_right_training_is_told_nothing(recorder: Recorder, every: int, steps: int, piece: int) -> None:
    golden = recorder.learn(Late())
    run = thin(recorder.tell(Late(steps=steps), seed=7), HEAD, every)
    told, found = follow(run, golden, piece=piece)
    assert not told
    assert not found.incidents
    assert found.steps == steps


@pytest.mark.parametrize("what", WRONG)
def test_what_stays_wrong_is_told_at_the_next_observed_step(recorder: Recorder, what: str) -> None:
    """With the number that the step has in the whole training, and as soon as it is known to be complete."""
    golden = recorder.learn(Late())
    run = thin(recorder.tell(Late(steps=150, goes_wrong=what, at=83, since=True), seed=7), HEAD, 10)
    told, found = follow(run, golden, piece=7)
    (title, (incident, seen)), *_ = told.items()
    assert WRONG[what] in title
    assert incident.cause.step in (90, 100)
    assert seen == incident.cause.step + 1
    assert [item.cause.title for item in found.incidents] == [title]


def test_few_observed_steps_at_once_are_few_however_far_apart(recorder: Recorder) -> None:
    """They are judged in the look that brings them, as far as they go."""
    golden = recorder.learn(Late())
    run = recorder.tell(Late(steps=150, goes_wrong="keeps gradients", at=25, since=True), seed=7)
    rows = len(run.processes[0].events) // 150
    follower = Follower(thin(run, HEAD, 10), golden, same_spec=True, other_length=True, piece=rows)
    while follower.steps < GOLDEN_STEPS - 3:
        assert not follower.advance()
    follower.piece = rows * (MANY - 4)
    (incident,) = follower.advance()
    assert incident.cause.step == 30
    assert follower.steps > GOLDEN_STEPS + 2 * MANY


def test_what_happens_in_a_step_that_is_not_observed_is_not_known(recorder: Recorder) -> None:
    golden = recorder.learn(Late())
    run = thin(recorder.tell(Late(steps=150, goes_wrong="keeps gradients", at=83), seed=7), HEAD, 10)
    told, found = follow(run, golden, piece=7)
    assert not told
    assert found.steps == 150


@pytest.mark.parametrize("every", [(4, 4), (4, 8), (8, 2), (9, 65)])
def test_ranks_are_compared_at_steps_that_all_of_them_observe(recorder: Recorder, every: tuple[int, int]) -> None:
    golden = recorder.learn(Late(), ranks=2)
    told, found = follow(thin(recorder.tell(Late(steps=170), seed=7, ranks=2), HEAD, *every), golden, piece=90)
    assert not told
    assert not found.incidents


def test_ranks_that_drift_apart_are_told_at_a_step_that_all_of_them_observe(recorder: Recorder) -> None:
    golden = recorder.learn(Late(), ranks=2)
    wrong = recorder.tell(Late(steps=170, goes_wrong="ranks drift", at=100, since=True), seed=7, ranks=2)
    told, _ = follow(thin(wrong, HEAD, 4, 8), golden, piece=90)
    incident, _ = next(iter(told.values()))
    assert incident.cause.step in (104, 112)
