"""Schedule: the learning rate goes the same way in every run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from judgements import broken, describe, rule, sentences, violations
from scaled_story import Scaled
from training_story import Loop, Recorder, Training

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.infer import learn
from pytest_traincheck.rules.model import Kind, Scope

HALVED = (
    "The learning rate of `AdamW[Net]` (group 0) takes the values 1, 0.5, 0.25, 0.125, 0.0625, 0.03125 times its `lr`."
)

COURSE = "1, 0.5, 0.25, 0.125, 0.0625, 0.03125 times its `lr`"


def test_a_schedule_is_pinned_configuration(recorder: Recorder) -> None:
    invariant = rule(recorder.golden(Loop()), HALVED)
    assert (invariant.scope, invariant.kind) == (Scope.PINNED, Kind.CONFIG)
    assert invariant.subject == "torch.optim.AdamW.lr"


def test_another_decay_shows_at_its_first_step(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(factor=0.9))
    violation = broken(outcome, HALVED)
    assert violation.step == 1
    assert violation.title == (
        "The learning-rate schedule of `AdamW[Net]` (group 0) gave 0.5 times its `lr` at its step 1 in the golden "
        "run and gives 0.9 in the candidate."
    )
    assert violation.golden == "1, 0.5, 0.25, 0.125, 0.0625, 0.03125 times its `lr`"
    assert violation.candidate == (
        "1, 0.9, 0.81, 0.729, 0.6561, 0.5905 times its `lr` (learning rate 0.01, 0.009, 0.0081, 0.00729, 0.006561, "
        "0.005905)"
    )
    assert len(outcome.incidents) == 1, describe(outcome.incidents)


def test_a_scheduler_that_is_never_stepped_is_the_cause(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(schedule="never"))
    assert broken(outcome, HALVED).candidate.endswith("(learning rate 0.01, 0.01, 0.01, 0.01, 0.01, 0.01)")
    (incident,) = outcome.incidents
    assert incident.cause.invariant.relation == "Count"
    assert "StepLR.step" in incident.cause.title


def test_a_shorter_or_longer_run_follows_the_same_schedule(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    for steps in (4, 8):
        assert not violations(recorder.check(golden, Loop(steps=steps)), "Schedule")


def test_a_constant_rate_stays_constant(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(factor=1.0))
    sentence = "The learning rate of `AdamW[Net]` (group 0) stays at its `lr`."
    assert sentences(golden, "Schedule") == [sentence]
    violation = broken(recorder.check(golden, Loop()), sentence)
    assert violation.step == 1
    assert violation.title == (
        "The learning rate of `AdamW[Net]` (group 0) stayed at its `lr` in the golden run and is 0.5 times its `lr` "
        "at its step 1 in the candidate."
    )


def test_a_rate_that_follows_the_loss_is_no_rule(recorder: Recorder) -> None:
    def on_plateau(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(8):
            t.zero_grad(optimizer)
            t.forward(net)
            t.backward(net)
            t.step(optimizer)
            if step == 3 + t.seed:
                t.schedule(optimizer, kind="torch.optim.lr_scheduler.ReduceLROnPlateau")

    golden = learn([recorder.tell(on_plateau, seed=seed) for seed in (0, 1)], pipeline="story")
    assert not sentences(golden, "Schedule")
    assert not check_run(golden, recorder.tell(on_plateau, seed=2), same_spec=True).incidents


def test_the_scheduler_of_one_group_is_named(recorder: Recorder) -> None:
    def two_rates(t: Training, *, frozen_rate: bool = False) -> None:
        net = t.model()
        parameters = list(net.parameters.values())
        optimizer = t.optimizer("torch.optim.AdamW", [parameters[:1], parameters[1:]], [{"lr": 0.1}, {"lr": 0.01}])
        for _ in range(6):
            t.zero_grad(optimizer)
            t.forward(net)
            t.backward(net)
            t.step(optimizer)
            second = optimizer.rates[1]
            t.schedule(optimizer)
            if frozen_rate:
                optimizer.rates[1] = second

    golden = learn([recorder.tell(two_rates), recorder.tell(two_rates, seed=1)], pipeline="story")
    assert sorted(sentences(golden, "Schedule")) == [
        *(f"The learning rate of `AdamW[Net]` (group {group}) takes the values {COURSE}." for group in (0, 1)),
        "`torch.optim.AdamW(lr)` of `AdamW[Net]` (group 0) is 0.1.",
        "`torch.optim.AdamW(lr)` of `AdamW[Net]` (group 1) is 0.01.",
    ]
    outcome = check_run(golden, recorder.tell(lambda t: two_rates(t, frozen_rate=True)), same_spec=True)
    (violation,) = violations(outcome, "Schedule")
    assert "(group 1)" in violation.invariant.sentence


def later(seed: int, iteration: int) -> bool:
    return iteration in (1, 3 + seed)


def test_with_a_scaler_the_rate_goes_with_the_steps_of_the_scheduler(recorder: Recorder) -> None:
    """Which steps are skipped is up to the data, so that the third step has another rate with another seed."""
    golden = recorder.learn(Scaled(later).tell)
    (sentence,) = sentences(golden, "Schedule")
    assert sentence == (
        "The learning rate of `AdamW[Net]` (group 0) takes the values 1, any, 0.25, any, 0.0625, 0.03125, 0.01562, "
        "0.007812 times its `lr` with the steps of its schedulers."
    )
    for seed in range(4):
        assert not violations(recorder.judge(golden, Scaled(later).tell, seed=seed), "Schedule")
    slower = recorder.judge(golden, Scaled(later, factor=0.9).tell)
    (violation,) = violations(slower, "Schedule")
    assert violation.title == (
        "The learning-rate schedule of `AdamW[Net]` (group 0) gave 0.25 times its `lr` after 2 steps of its "
        "schedulers in the golden run and gives 0.81 in the candidate."
    )


@dataclass(frozen=True)
class ByHand:
    """A loop that sets its rates itself, by the number of its iteration or of the steps that were taken, and asks a
    gradient scaler for its steps. The warm-up begins at zero.
    """

    skips: Callable[[int, int], bool] = lambda _seed, _iteration: False
    by_steps: bool = False
    warm_up: int = 4
    scaled: bool = True

    def tell(self, t: Training) -> None:
        """The loop in the process `t`."""
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        taken = 0
        for iteration in range(8):
            t.zero_grad(optimizer)
            t.forward(net)
            t.backward(net)
            optimizer.rates[0] = 0.01 * min(1.0, (taken if self.by_steps else iteration) / self.warm_up)
            if not self.scaled:
                t.step(optimizer)
                continue
            with t.call("torch.amp.GradScaler.step", type="scaler"):
                if not self.skips(t.seed, iteration):
                    t.step(optimizer)
                    taken += 1


WARM_UP = "The learning rate of `AdamW[Net]` (group 0) takes the values 0, 0.25, 0.5, 0.75, 1, 1, 1, 1 times its `lr`."


def test_rates_by_hand_beside_a_scaler_that_skips_nothing_are_a_rule(recorder: Recorder) -> None:
    golden = recorder.learn(ByHand().tell)
    assert sentences(golden, "Schedule") == [WARM_UP]
    for same in (ByHand(), ByHand(scaled=False), ByHand(by_steps=True)):
        assert not violations(recorder.judge(golden, same.tell, seed=3), "Schedule")
    for other in (ByHand(warm_up=2), ByHand(warm_up=2, scaled=False), ByHand(warm_up=100)):
        violation = broken(recorder.judge(golden, other.tell, seed=3), WARM_UP)
        assert violation.step == 1


def test_behind_the_first_step_that_a_scaler_skips_nothing_is_said(recorder: Recorder) -> None:
    """Whether a skipped step counts for the rate, nobody could learn from runs that skipped none."""
    golden = recorder.learn(ByHand().tell)
    for by_steps in (False, True):
        skipping = ByHand(lambda _, iteration: iteration == 2, by_steps=by_steps)
        assert not violations(recorder.judge(golden, skipping.tell), "Schedule")
    skipping = ByHand(lambda _, iteration: iteration == 3, warm_up=2)
    assert broken(recorder.judge(golden, skipping.tell), WARM_UP).step == 1


def test_steps_that_every_golden_run_skips_are_part_of_the_rule(recorder: Recorder) -> None:
    golden = recorder.learn(ByHand(lambda _, iteration: iteration < 2).tell)
    (sentence,) = sentences(golden, "Schedule")
    assert sentence == (
        "The learning rate of `AdamW[Net]` (group 0) takes the values 0.5, 0.75, 1, 1, 1, 1 times its `lr`, as long as "
        "a gradient scaler skips as many steps."
    )
    for skips in ((0, 1), (0, 1, 4), (0,), ()):
        told = ByHand(lambda _, iteration, skips=skips: iteration in skips).tell
        assert not violations(recorder.judge(golden, told, seed=3), "Schedule"), skips
    slower = ByHand(lambda _, iteration: iteration < 2, warm_up=8)
    broken(recorder.judge(golden, slower.tell, seed=3), sentence)


def test_a_course_by_steps_of_schedulers_is_silent_about_rates_set_by_hand(recorder: Recorder) -> None:
    """The schedule is the same, and no scheduler is called any more: Count says what there is to say."""

    def by_hand(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for iteration in range(8):
            t.zero_grad(optimizer)
            t.forward(net)
            t.backward(net)
            with t.call("torch.amp.GradScaler.step", type="scaler"):
                if not later(t.seed, iteration):
                    t.step(optimizer)
            optimizer.rates[0] *= 0.5

    golden = recorder.learn(Scaled(later).tell)
    assert not violations(recorder.judge(golden, by_hand), "Schedule")
