"""A training that changes over to averaging its weights, in steps that golden's runs never came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from judgements import sentences
from late_story import GOLDEN_STEPS, follow
from trace_builder import Layer, Model
from training_story import F, Recorder, Training

from pytest_traincheck.online.follow import PIECE
from pytest_traincheck.online.launch_group import STRETCH

PARAMETERS = {"fc1.weight": (4, 3), "fc2.weight": (5, 4)}
CYCLIC, SWA = "torch.optim.lr_scheduler.CyclicLR", "torch.optim.swa_utils.SWALR"
UPDATE, ESTIMATE = "torch.optim.swa_utils.AveragedModel.update_parameters", "torch.optim.swa_utils.update_bn"
NORM = Layer("norm", "torch.nn.BatchNorm1d", F + "batch_norm", {"momentum": 0.1})


@dataclass(frozen=True)
class Averaged:
    """A model with a copy, of which both are evaluated every third step."""

    steps: int = GOLDEN_STEPS
    averages_since: int = 1000
    """A step from which SWALR steps in the place of CyclicLR, and the copy follows every fifth step."""
    averages_at: Sequence[int] = ()
    """Steps behind which it follows before."""
    follows_by_hand: bool = False
    """Whether the copy is written in another way than by the library."""
    hands_over: bool = True
    """Whether SWALR steps then."""
    beside: bool = False
    """Whether it steps beside CyclicLR before."""
    other_optimizer: bool = False
    """Whether it steps for another optimizer than the model's."""
    estimates: Sequence[int] = ()
    """Steps behind which the running statistics of the copy are estimated by `update_bn`."""
    in_train_mode: Sequence[int] = ()
    """Steps behind which the copy is evaluated in train mode."""

    def __call__(self, t: Training) -> None:
        model, copy = (t.model("Net", PARAMETERS, buffers=("norm.running_mean",), layers=(NORM,)) for _ in range(2))
        optimizer = t.adamw([*model.parameters.values()])
        second = t.adamw([*model.parameters.values()]) if self.other_optimizer else optimizer
        t.mode(model, True)
        for step in range(self.steps):
            t.zero_grad(optimizer)
            t.batch()
            t.forward(model)
            t.loss()
            t.backward(model)
            t.step(optimizer)
            if step < self.averages_since:
                t.schedule(optimizer, kind=CYCLIC)
                if step in self.averages_at:
                    self._follow(t, copy)
                if self.beside:
                    t.schedule(optimizer, kind=SWA)
            else:
                if self.hands_over:
                    t.schedule(second, kind=SWA)
                if step % 5 == 0:
                    self._follow(t, copy)
            if step in self.estimates:
                self._estimate(t, copy)
            if step % 3 == 2:
                self._evaluate(t, copy, training=step in self.in_train_mode)

    def _follow(self, t: Training, copy: Model) -> None:
        if self.follows_by_hand:
            t.move(copy.parameters["fc1.weight"])
            return
        with t.call(UPDATE, type="update"):
            for parameter in copy.parameters.values():
                t.move(parameter)

    def _estimate(self, t: Training, copy: Model) -> None:
        with t.call(ESTIMATE, type="statistics"), t.no_grad():
            t.mode(copy, True)
            for _ in range(2):
                t.batch()
                t.forward(copy, line="evaluate")
            t.mode(copy, False)

    def _evaluate(self, t: Training, copy: Model, *, training: bool) -> None:
        t.mode(copy, training)
        with t.no_grad():
            t.batch()
            t.forward(copy, line="evaluate")


KNOWN = Averaged()
LATER = replace(KNOWN, steps=60, averages_since=30)


def told(recorder: Recorder, story: Averaged, known: Averaged = KNOWN) -> dict[str, int]:
    """The first step of each incident, by its title; `known`: what golden does."""
    golden = recorder.learn(known)
    assert any("CyclicLR.step` is called exactly once" in text for text in sentences(golden, "Count"))
    assert any("no optimizer holds do not change" in text for text in sentences(golden, "Moves"))
    path = recorder.path()
    t = Training(path, seed=5)
    story(t)
    t.write()
    return {incident.cause.title: incident.cause.step for incident in follow(path, golden)[1].incidents}


def test_a_schedule_and_averages_that_take_over_are_silent(recorder: Recorder) -> None:
    assert told(recorder, LATER) == {}


def test_a_schedule_that_nothing_follows_is_told(recorder: Recorder) -> None:
    found = told(recorder, replace(LATER, hands_over=False))
    assert list(found.values()) == [31]
    assert "CyclicLR" in next(iter(found))


def test_a_schedule_that_was_there_before_takes_over_nothing(recorder: Recorder) -> None:
    found = told(recorder, replace(LATER, beside=True), replace(KNOWN, beside=True))
    assert list(found.values()) == [31]
    assert "CyclicLR" in next(iter(found))


def test_an_average_that_begins_within_golden_s_steps_is_told(recorder: Recorder) -> None:
    found = told(recorder, replace(LATER, averages_at=[2]))
    assert list(found.values()) == [3]
    assert "never changed in the golden run" in next(iter(found))


def test_a_schedule_of_another_optimizer_takes_over_nothing(recorder: Recorder) -> None:
    golden = recorder.learn(replace(KNOWN, other_optimizer=True))
    path = recorder.path()
    t = Training(path, seed=5)
    replace(LATER, other_optimizer=True)(t)
    t.write()
    titles = {incident.cause.title: incident.cause.step for incident in follow(path, golden)[1].incidents}
    assert any("CyclicLR" in title and step == 31 for title, step in titles.items())


def test_a_copy_that_something_else_writes_into_is_told(recorder: Recorder) -> None:
    found = told(recorder, replace(LATER, follows_by_hand=True))
    assert list(found.values()) == [31]
    assert "never changed in the golden run" in next(iter(found))


def test_an_estimate_of_running_statistics_is_no_evaluation(recorder: Recorder) -> None:
    assert told(recorder, replace(LATER, estimates=[40, 59])) == {}
    assert told(recorder, replace(KNOWN, estimates=[3])) == {}


def test_an_evaluation_in_train_mode_is_told_beside_an_estimate(recorder: Recorder) -> None:
    found = told(recorder, replace(LATER, estimates=[40], in_train_mode=[50]))
    assert list(found.values()) == [51]
    assert "train mode" in next(iter(found))


@pytest.mark.parametrize("piece", [300, PIECE])
def test_a_copy_that_stops_is_told_however_many_stretches_come_at_once(recorder: Recorder, piece: int) -> None:
    """Though it has followed in the stretch before, and in the beginning of this one."""
    follows = Averaged(averages_at=range(GOLDEN_STEPS), follows_by_hand=True)
    golden, stop = recorder.learn(follows), GOLDEN_STEPS + 2 * STRETCH + 20
    run = recorder.tell(replace(follows, steps=stop + 2 * STRETCH, averages_at=range(stop)), seed=7)
    _, found = follow(run.path, golden, piece=piece)
    (incident,) = found.incidents
    assert "Net#1.fc1.weight" in incident.cause.title
    assert stop <= incident.cause.step <= stop + 2
