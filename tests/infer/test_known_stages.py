"""Rules say nothing about a stage that golden never saw, and packs hold what several pipelines share."""

from __future__ import annotations

import pytest
from judgements import describe, rule, sentences, violations
from training_story import ADAMW, BACKWARD, DROPOUT, LINEAR, F, Loop, Recorder

from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer.transferable import learn_transferable
from pytest_traincheck.rules.conditions import Clause
from pytest_traincheck.rules.model import Scope
from pytest_traincheck.trace import Run

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


# Packs


def pipelines(recorder: Recorder, *loops: Loop) -> list[list[Run]]:
    return [[recorder.record(loop.but(seed=seed)) for seed in (0, 1)] for loop in loops]


def pack(recorder: Recorder, *loops: Loop) -> Golden:
    return learn_transferable(pipelines(recorder, *loops), pipeline="pack")


FIRST = Loop(name="Mlp")
SECOND = Loop(name="Wide", parameters={"fc1.weight": (9, 3), "fc1.bias": (9,)}, lr=0.3)
THIRD = Loop(name="Slow", optimizer="torch.optim.SGD", clip=None)


def test_a_pack_holds_what_every_pipeline_shows(recorder: Recorder) -> None:
    golden = pack(recorder, FIRST, SECOND, THIRD)
    known = sentences(golden)
    assert f"`{BACKWARD}` is called exactly once in every training step." in known
    assert {item.scope for item in golden.invariants} == {Scope.TRANSFERABLE}
    assert golden.runs == 6
    assert not [line for line in known if "Mlp" in line or "Wide" in line or "Slow" in line]
    # Only two of them use Adam, and only two clip: nothing says that others must.
    assert not [line for line in known if (ADAMW in line or "clip" in line) and "at most once" not in line]
    assert not recorder.check(golden, Loop(name="Unseen", seed=8)).incidents


def test_one_pipeline_that_does_otherwise_is_enough_to_refute(recorder: Recorder) -> None:
    golden = pack(recorder, FIRST, SECOND, THIRD, Loop(name="Patient", microbatches=3))
    assert f"`{BACKWARD}` is called exactly once in every training step." not in sentences(golden)
    assert f"`{BACKWARD}` is called at least once in every training step." in sentences(golden)


def test_a_pack_finds_faults_in_a_pipeline_that_it_never_saw(recorder: Recorder) -> None:
    golden = pack(recorder, FIRST, SECOND, THIRD)
    outcome = recorder.check(
        golden, Loop(name="Unseen", layers=(LINEAR, DROPOUT), back_to_train=False), same_spec=False
    )
    assert violations(outcome)


def test_a_pack_of_pipelines_that_only_train_is_about_training(recorder: Recorder) -> None:
    golden = pack(recorder, *(loop.but(evaluate_after=()) for loop in (FIRST, SECOND, THIRD)))
    assert rule(golden, f"`{F}linear` returns float32, in training.").when == (STAGE,)


def test_two_pipelines_are_too_few(recorder: Recorder) -> None:
    with pytest.raises(ValueError, match="at least 3 pipelines, got 2"):
        pack(recorder, FIRST, SECOND)
    with pytest.raises(ValueError, match="at least 3 pipelines"):
        learn_transferable([*pipelines(recorder, FIRST, SECOND), []], pipeline="pack")
