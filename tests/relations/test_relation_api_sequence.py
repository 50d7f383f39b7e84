"""APISequence: what stands between `backward` and the step, in which order; and what the first step precedes."""

from __future__ import annotations

from judgements import broken, describe, rule, sentences, violations
from training_story import CLIP, STEP_LR, Loop, Recorder, Training

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.infer import learn

UNSCALE = "torch.amp.GradScaler.unscale_"
CLIPPED = f"`{CLIP}` is called between the last `backward` and the optimizer's step."
STEPPED = f"The optimizer steps before `{STEP_LR}.step` is first called."
ORDERED = f"`{UNSCALE}` is called before `{CLIP}` in every step in which both are called."


def test_clipping_after_backward_is_learned(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    assert rule(golden, CLIPPED).examples == 12
    assert rule(golden, STEPPED)


def test_clipping_after_the_step_is_out_of_place(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(clip_after_step=True))
    violation = broken(outcome, CLIPPED)
    assert (violation.step, violation.stage) == (0, "train")
    assert violation.title.endswith("the candidate calls it only after the optimizer's step.")
    assert outcome.incidents[0].cause == violation
    assert (
        outcome.incidents[0]
        .consequences[0]
        .title.endswith(
            "was called exactly once in every training step of the golden run; the candidate calls it only after the "
            "optimizer's step."
        )
    )


def test_clipping_before_backward_is_out_of_place(recorder: Recorder) -> None:
    def early(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for _ in range(6):
            t.zero_grad(optimizer)
            t.forward(net)
            t.clip(optimizer)
            t.loss()
            t.backward(net)
            t.step(optimizer)

    outcome = check_run(recorder.golden(Loop()), recorder.tell(early), same_spec=True)
    assert broken(outcome, CLIPPED).candidate == "called only before the last `backward`"


def test_clipping_that_is_left_out_of_some_steps_has_not_moved(recorder: Recorder) -> None:
    def seldom(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(6):
            t.zero_grad(optimizer)
            t.forward(net)
            t.loss()
            t.backward(net)
            if step != 2:
                t.clip(optimizer)
            t.step(optimizer)

    violation = broken(check_run(recorder.golden(Loop()), recorder.tell(seldom), same_spec=True), CLIPPED)
    assert violation.title.endswith("the candidate does not in step 2.")


def test_a_scheduler_before_the_first_step(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(schedule="before"))
    violation = broken(outcome, STEPPED)
    assert (violation.step, violation.source) == (0, "train.py:16")


def test_where_zero_grad_stands_is_no_order(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(zero_grad="top"))
    assert not [line for line in sentences(golden, "APISequence") if "zero_grad" in line]
    for place in ("bottom", "model", "assign"):
        outcome = recorder.check(golden, Loop(zero_grad=place))
        assert not outcome.incidents, describe(outcome.incidents)


def _mixed_precision(t: Training, *, swapped: bool = False) -> None:
    net = t.model()
    optimizer = t.adamw(list(net.parameters.values()))
    for _ in range(6):
        t.zero_grad(optimizer)
        t.forward(net)
        t.loss()
        t.backward(net)
        if swapped:
            t.clip(optimizer)
        with t.call(UNSCALE, type="scaler", line=14):
            pass
        if not swapped:
            t.clip(optimizer)
        t.step(optimizer)


def test_clipping_before_unscaling_is_the_wrong_way_round(recorder: Recorder) -> None:
    golden = learn([recorder.tell(_mixed_precision), recorder.tell(_mixed_precision, seed=1)], pipeline="amp")
    assert rule(golden, ORDERED)
    outcome = check_run(golden, recorder.tell(lambda t: _mixed_precision(t, swapped=True)), same_spec=True)
    assert "the candidate calls `torch.nn.utils.clip_grad_norm_` first" in broken(outcome, ORDERED).title
    assert outcome.incidents[0].cause.invariant.relation == "APISequence"


def test_order_says_nothing_when_one_of_the_two_is_missing(recorder: Recorder) -> None:
    golden = learn([recorder.tell(_mixed_precision), recorder.tell(_mixed_precision, seed=1)], pipeline="amp")
    outcome = recorder.check(golden, Loop(schedule="never"))
    assert ORDERED not in [item.invariant.sentence for item in violations(outcome)]
