"""Accumulate: which backward passes a step consumes, judged by gradients, wherever `zero_grad` stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from judgements import broken, describe, rule, sentences, violations
from trace_builder import NONZERO, ZERO
from training_story import Loop, Recorder, Training

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.infer import learn
from pytest_traincheck.relations import Deviation
from pytest_traincheck.rules.model import Scope

FRESH = "No gradient that `torch.optim.AdamW.step` consumes is left over from an earlier step."
WHOLE = (
    "Gradients accumulate over all backward passes before `torch.optim.AdamW.step` and are not cleared between them."
)
USED = "The gradients of a backward pass are used by an optimizer step before they are cleared."
CLEAN = "Every backward pass in the closure of `torch.optim.LBFGS.step` starts from cleared gradients."


def test_fresh_and_whole_are_learned(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    # Three parameters at each step, in two runs.
    assert (rule(golden, FRESH).examples, rule(golden, FRESH).scope) == (36, Scope.TRANSFERABLE)
    assert rule(golden, WHOLE)


def test_a_missing_zero_grad_is_the_top_incident(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(zero_grad="never"))
    violation = broken(outcome, FRESH)
    assert outcome.incidents[0].cause is violation
    assert (violation.step, violation.stage, violation.source) == (1, "train", "train.py:15")
    assert violation.variables == ("Net.fc1.weight", "Net.fc1.bias", "Net.fc2.weight")
    assert "zero_grad is missing or misplaced" in violation.title
    assert len(outcome.incidents) == 1, describe(outcome.incidents)


@pytest.mark.parametrize("golden_place", ["top", "bottom"])
@pytest.mark.parametrize("place", ["top", "bottom", "model", "assign"])
def test_the_place_and_the_way_of_clearing_do_not_matter(recorder: Recorder, golden_place: str, place: str) -> None:
    golden = recorder.golden(Loop(zero_grad=golden_place))
    assert FRESH in sentences(golden)
    outcome = recorder.check(golden, Loop(zero_grad=place))
    assert not outcome.incidents, describe(outcome.incidents)


def test_clearing_before_each_micro_batch_loses_all_but_the_last(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(microbatches=2))
    outcome = recorder.check(golden, Loop(microbatches=2, zero_grad="never", zero_each=True))
    violation = broken(outcome, WHOLE)
    assert outcome.incidents[0].cause is violation
    assert violation.step == 0
    assert "only the last backward pass counts" in violation.title
    assert FRESH not in [item.invariant.sentence for item in violations(outcome)]


def test_another_number_of_micro_batches_is_no_accumulation_bug(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(microbatches=2))
    assert not violations(recorder.check(golden, Loop(microbatches=4)), "Accumulate")


def test_one_parameter_that_is_not_cleared_is_named(recorder: Recorder) -> None:
    def clears_too_few(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for _ in range(6):
            t.zero_grad(optimizer, only=list(net.parameters.values())[:2])
            t.forward(net)
            t.loss()
            t.backward(net)
            t.clip(optimizer)
            t.step(optimizer)
            t.schedule(optimizer)

    outcome = check_run(recorder.golden(Loop()), recorder.tell(clears_too_few), same_spec=True)
    assert broken(outcome, FRESH).variables == ("Net.fc2.weight",)


def test_a_loop_that_never_clears_on_purpose_has_no_rule(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(zero_grad="never"))
    assert FRESH not in sentences(golden)
    assert not recorder.check(golden, Loop(zero_grad="never", seed=4)).incidents


def _lbfgs(t: Training, *, clears: bool = True, evaluations: int = 3) -> None:
    net = t.model()
    optimizer = t.adamw(list(net.parameters.values()), kind="torch.optim.LBFGS")

    def closure() -> None:
        for _ in range(evaluations):
            if clears:
                t.zero_grad(optimizer)
            t.forward(net)
            t.loss()
            t.backward(net)

    for _ in range(5):
        t.step(optimizer, closure=closure)


def test_the_closure_of_lbfgs_clears_before_each_evaluation(recorder: Recorder) -> None:
    golden = learn([recorder.tell(_lbfgs), recorder.tell(_lbfgs, seed=1)], pipeline="lbfgs")
    assert CLEAN in sentences(golden)
    fewer = check_run(golden, recorder.tell(lambda t: _lbfgs(t, evaluations=2)), same_spec=True)
    assert not fewer.incidents, describe(fewer.incidents)
    outcome = check_run(golden, recorder.tell(lambda t: _lbfgs(t, clears=False)), same_spec=True)
    violation = broken(outcome, CLEAN)
    assert (violation.step, outcome.incidents[0].cause) == (0, violation), describe(outcome.incidents)


def critic_and_generator(
    t: Training, *, left_out: Sequence[int] = (), passes: int = 1, scaled: bool = False, rest: bool = False
) -> None:
    """A critic that takes three steps for one of its generator, whose loss leaves gradients in both. Of the critic's
    steps those in `left_out` are not taken; `passes` backward passes go before each; `rest`: one more in the end.
    """
    generator, critic = t.model("Generator"), t.model("Critic")
    of_critic, of_generator = (t.adamw(list(model.parameters.values())) for model in (critic, generator))
    for number in range(12):
        t.zero_grad(of_critic)
        for _ in range(passes):
            t.forward(critic)
            t.backward(critic)
        if scaled:
            with t.call("torch.amp.GradScaler.step", type="scaler"):
                if number not in left_out:
                    t.step(of_critic)
        elif number not in left_out:
            t.step(of_critic)
        if number % 3 == 2:
            t.zero_grad(of_generator)
            t.forward(generator)
            t.backward(generator, critic)
            t.step(of_generator)
    if rest:
        t.zero_grad(of_critic)
        t.backward(critic)


def test_gradients_that_are_computed_and_thrown_away(recorder: Recorder) -> None:
    golden = recorder.learn(critic_and_generator)
    assert rule(golden, USED).scope is Scope.PINNED
    (violation,) = violations(recorder.judge(golden, lambda t: critic_and_generator(t, left_out=(4, 7))), "Accumulate")
    assert (violation.step, violation.count, violation.source) == (1, 2, "train.py:13")
    assert violation.title == (
        "In the golden run an optimizer step used the gradients of each backward pass; in the candidate those of "
        "one are cleared before any step uses them: an optimizer step is missing, or zero_grad is misplaced."
    )


@pytest.mark.parametrize(
    "fine",
    [
        critic_and_generator,
        lambda t: critic_and_generator(t, passes=2),
        lambda t: critic_and_generator(t, rest=True),
        lambda t: critic_and_generator(t, left_out=(4,), scaled=True),
        _lbfgs,
    ],
    ids=["as golden", "two passes a step", "a rest without a step", "a step that a scaler skips", "what LBFGS tries"],
)
def test_gradients_that_are_used(recorder: Recorder, fine: Callable[[Training], None]) -> None:
    outcome = recorder.judge(recorder.learn(critic_and_generator), fine)
    assert USED not in [item.invariant.sentence for item in violations(outcome)]


def test_a_loop_that_throws_gradients_away_on_purpose_has_no_rule(recorder: Recorder) -> None:
    assert USED not in sentences(recorder.learn(lambda t: critic_and_generator(t, left_out=(4,))))


def test_where_each_backward_pass_has_its_step_nothing_more_is_said(recorder: Recorder) -> None:
    assert USED not in sentences(recorder.golden(Loop()))


def test_gradients_that_are_cleared_before_the_step_say_when_and_by_what(recorder: Recorder) -> None:
    """There is one backward pass, so that nothing is between two; and what clears them may be no `zero_grad`."""

    def clearing(by_call: bool) -> Callable[[Training], None]:
        def story(t: Training) -> None:
            net = t.model()
            optimizer = t.adamw(list(net.parameters.values()))
            for _ in range(6):
                t.forward(net)
                t.loss()
                t.backward(net)
                if by_call:
                    t.zero_grad(optimizer)
                else:
                    for parameter in net.parameters.values():
                        t.change(parameter.gradient, ZERO)
                t.step(optimizer)

        return story

    golden = recorder.golden(Loop())
    for by_call, hint in ((True, "zero_grad is misplaced."), (False, "something else than zero_grad does.")):
        outcome = recorder.judge(golden, clearing(by_call))
        first = next(item for item in violations(outcome, "Accumulate") if item.deviation is Deviation.TOO_OFTEN)
        assert first.title.startswith("`torch.optim.AdamW.step`: the golden run used the gradients of all backward")
        assert first.title.endswith(f"between the last backward pass and the step: {hint}")
        assert "before it uses them" in first.candidate


def _zero_at_first(t: Training, *, zeros: int, clears: bool = True) -> None:
    """The gradient of one parameter is exactly zero in the first steps, as with a loss that has a margin; clearing sets
    gradients to zero, and leaves no trace where they are zero.
    """
    net = t.model()
    optimizer = t.adamw(list(net.parameters.values()))
    *_, last = net.parameters.values()

    def stays_zero() -> None:
        if t.state(last.gradient) != ZERO:
            t.change(last.gradient, ZERO)

    for number in range(6):
        if clears:
            with t.call("torch.optim.AdamW.zero_grad", type="zero_grad", optimizer=optimizer.number):
                for parameter in net.parameters.values():
                    if t.state(parameter.gradient) == NONZERO:
                        t.change(parameter.gradient, ZERO)
        t.forward(net)
        t.loss()
        if number < zeros:
            t.backward(net, without=[last.name], within=stays_zero)
        else:
            t.backward(net)
        t.step(optimizer)


def test_a_gradient_that_is_zero_by_itself_is_nothing_left_over(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(clip=None, schedule="never"))
    outcome = recorder.judge(golden, lambda t: _zero_at_first(t, zeros=3))
    assert not violations(outcome, "Accumulate"), describe(outcome.incidents)


def test_a_gradient_that_was_zero_at_first_is_left_over_later(recorder: Recorder) -> None:
    outcome = recorder.judge(recorder.golden(Loop()), lambda t: _zero_at_first(t, zeros=3, clears=False))
    violation = broken(outcome, FRESH)
    assert (violation.step, violation.count) == (1, 12)  # Two parameters from step 1 on, the third from step 4 on.
