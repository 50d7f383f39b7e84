"""APISequence: what stands between `backward` and the step, in which order; and what the first step precedes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from judgements import broken, describe, rule, sentences, titles, violations
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


SMALL, LARGE = ("embed.weight",), ("fc.weight", "fc.bias")
TWO = {"embed.weight": (6, 4), "fc.weight": (5, 4), "fc.bias": (5,)}


def _two_optimizers(*order: str, scales: bool = True) -> Callable[[Training], None]:
    """One backward pass, and then: `clip`, or `clip` of what one holds, and the steps of both, in an order.

    `scales`: whether gradients are large enough for clipping to change them.
    """

    def training(t: Training) -> None:
        net = t.model("Net", TWO)
        held = {name: [net.parameters[part] for part in parts] for name, parts in (("small", SMALL), ("large", LARGE))}
        optimizers = {"small": t.adamw(held["small"], kind="torch.optim.SGD"), "large": t.adamw(held["large"])}
        for _ in range(6):
            for optimizer in optimizers.values():
                t.zero_grad(optimizer)
            t.forward(net)
            t.loss()
            t.backward(net)
            for what in order:
                clip, _, whose = what.rpartition(" ")
                if what == "clip" or clip:
                    t.clips([*held["small"], *held["large"]] if not clip else held[whose], scales=scales)
                else:
                    t.step(optimizers[what])

    return training


def _titles(recorder: Recorder, golden: Callable[[Training], None], candidate: Callable[[Training], None]) -> list[str]:
    learned = learn([recorder.tell(golden), recorder.tell(golden, seed=1)], pipeline="two")
    assert [line for line in sentences(learned, "APISequence") if "clip_grad" in line]
    return titles(check_run(learned, recorder.tell(candidate, seed=7), same_spec=True), "APISequence")


@pytest.mark.parametrize("scales", [True, False])
@pytest.mark.parametrize("swapped", [("clip", "large", "small"), ("clip", "small", "large")])
def test_steps_that_follow_one_backward_may_come_in_any_order(
    recorder: Recorder, swapped: tuple[str, ...], scales: bool
) -> None:
    golden = ("clip", "small", "large")
    told = _titles(recorder, _two_optimizers(*golden, scales=scales), _two_optimizers(*swapped, scales=scales))
    assert not told


def test_a_step_that_comes_second_is_an_example_where_clipping_changed_its_gradients(recorder: Recorder) -> None:
    for scales, steps in ((True, 12), (False, 6)):
        story = _two_optimizers("clip", "small", "large", scales=scales)
        learned = learn([recorder.tell(story), recorder.tell(story, seed=1)], pipeline="two")
        assert rule(learned, CLIPPED).examples == 2 * steps


@pytest.mark.parametrize("late", [("small", "clip", "large"), ("large", "clip", "small"), ("small", "large", "clip")])
def test_clipping_after_one_of_two_steps_comes_too_late(recorder: Recorder, late: tuple[str, ...]) -> None:
    (title,) = _titles(recorder, _two_optimizers("clip", "small", "large"), _two_optimizers(*late))
    assert "was called between `backward` and the optimizer's step in the golden run" in title


@pytest.mark.parametrize("scales", [True, False])
def test_clipping_of_one_optimizer_has_nothing_to_do_with_the_step_of_another(recorder: Recorder, scales: bool) -> None:
    golden = _two_optimizers("clip small", "small", "large", scales=scales)
    for order in (("large", "clip small", "small"), ("clip small", "large", "small")):
        assert not _titles(recorder, golden, _two_optimizers(*order, scales=scales)), order


def test_clipping_for_each_of_two_steps(recorder: Recorder) -> None:
    golden = _two_optimizers("clip small", "small", "clip large", "large")
    assert not _titles(recorder, golden, _two_optimizers("clip large", "large", "clip small", "small"))
    assert not _titles(recorder, golden, _two_optimizers("clip large", "clip small", "large", "small"))
    assert _titles(recorder, golden, _two_optimizers("clip small", "small", "large", "clip large"))


def test_no_clipping_between_one_backward_and_two_steps(recorder: Recorder) -> None:
    assert _titles(recorder, _two_optimizers("clip", "small", "large"), _two_optimizers("small", "large"))
