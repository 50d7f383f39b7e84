"""Rules say nothing about a stage that golden never saw, and packs hold what several pipelines share."""

from __future__ import annotations

from judgements import describe, rule, violations
from training_story import BACKWARD, F, Loop, Recorder

from pytest_traincheck.rules.conditions import Clause

TRAINING_ONLY = Loop(evaluate_after=())
REDUCTION = f"`{F}cross_entropy` is called with reduction=mean"
STAGE = Clause("stage", ("train",))


def test_what_was_seen_in_training_alone_is_a_rule_about_training(recorder: Recorder) -> None:
    golden = recorder.golden(TRAINING_ONLY)
    assert rule(golden, f"{REDUCTION}, in training.").when == (STAGE,)
    assert rule(golden, f"`{F}linear` returns float32, in training.").when == (STAGE,)


def test_what_was_seen_in_both_is_a_rule_about_both(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    assert rule(golden, f"`{F}linear` returns float32.").when == ()
    # The condition that was learned stays what it is.
    assert rule(golden, f"`{F}dropout` is called with training=False, in evaluation.").when == (
        Clause("stage", ("eval",)),
    )


def test_a_validation_that_is_added_breaks_no_rule(recorder: Recorder) -> None:
    golden = recorder.golden(TRAINING_ONLY)
    outcome = recorder.check(golden, Loop(autocast=None))
    assert not outcome.incidents, describe(outcome.incidents)


def test_the_same_fault_in_training_is_still_seen(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(TRAINING_ONLY), TRAINING_ONLY.but(loss_args={"reduction": "sum"}))
    assert violations(outcome, "APIArg")


def test_rules_without_stages_are_left_alone(recorder: Recorder) -> None:
    golden = recorder.golden(TRAINING_ONLY)
    assert rule(golden, f"`{BACKWARD}` is called exactly once in every training step.").when == ()
