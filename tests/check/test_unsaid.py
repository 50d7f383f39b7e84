"""Goldens that hold no rule about something that every training has."""

from __future__ import annotations

from scaled_story import Scaled
from training_story import Loop, Recorder, Training

from pytest_traincheck.check.unsaid import unsaid
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn


def test_a_usual_golden_leaves_nothing_basic_unsaid(recorder: Recorder) -> None:
    for golden in (recorder.golden(Loop()), recorder.learn(Scaled().tell)):
        assert not unsaid(golden)
    assert not unsaid(Golden("story", "", ()))


def test_rates_that_follow_a_metric_and_another_length_with_each_seed_are_said(recorder: Recorder) -> None:
    def until_it_is_good(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(6 + t.seed):
            t.zero_grad(optimizer)
            t.forward(net)
            t.backward(net)
            t.step(optimizer)
            if step == 3 + t.seed:
                t.schedule(optimizer, kind="torch.optim.lr_scheduler.ReduceLROnPlateau")

    golden = learn([recorder.tell(until_it_is_good, seed=seed) for seed in (0, 1)], pipeline="story")
    rates, steps = unsaid(golden)
    assert rates.startswith("No rule says which learning rates `AdamW[Net]` has: ")
    assert steps.startswith("No rule says how many optimizer steps a run takes: ")


def test_gradients_that_come_and_go_are_said(recorder: Recorder) -> None:
    def now_and_then(t: Training) -> None:
        net = t.model()
        parameters = list(net.parameters.values())
        optimizer = t.adamw(parameters)
        for step in range(8):
            t.zero_grad(optimizer)
            t.forward(net)
            t.backward(net, without=[parameters[(step * step + t.seed) % 3].name])
            t.step(optimizer)

    golden = learn([recorder.tell(now_and_then, seed=seed) for seed in (0, 1, 2)], pipeline="story")
    (gradients,) = unsaid(golden)
    assert gradients.startswith("No rule says which parameters of `AdamW[Net]` get gradients: ")


def test_updates_that_nobody_sees_are_said_to_be_out_of_sight(recorder: Recorder) -> None:
    def unseen(t: Training) -> None:
        net = t.model()
        for _ in range(6):
            t.forward(net)
            t.backward(net)

    golden = learn([recorder.tell(unseen, seed=seed) for seed in (0, 1)], pipeline="story")
    (said,) = unsaid(golden)
    assert "no optimizer of `torch.optim` steps" in said


def test_rates_of_updates_by_hand_are_said_to_be_out_of_sight() -> None:
    golden = Golden("story", "", (), optimizers={"ByHand[Net]": {"class": "ByHand"}})
    rates, *others = unsaid(golden)
    assert rates.startswith("No rule says which learning rates `ByHand[Net]` has: the program makes the updates itself")
    assert all("learning rates" not in text for text in others)
