"""What a training does in steps that golden's runs never came to, and does on purpose, is nothing wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from judgements import sentences
from late_story import GOLDEN_STEPS, follow
from trace_builder import FALSE, TRUE, Model, Optimizer
from training_story import Recorder, Training

FROZEN = ("base.0.weight", "base.0.bias", "base.2.weight", "base.2.bias")
PARAMETERS = {**dict.fromkeys(FROZEN, (4, 3)), "fc1.weight": (4, 3), "fc2.weight": (5, 4)}


@dataclass(frozen=True)
class Phases:
    """A model that plays without gradients before each step, and is evaluated and set free later."""

    steps: int = GOLDEN_STEPS
    evaluates: Sequence[int] = ()
    plays: bool = True
    forgets_eval: Sequence[int] = ()
    """Steps behind which it is evaluated in train mode."""
    plays_in_eval: int = -1
    """A step before which it is in eval mode when it plays."""
    thaws: int = -1
    """A step before which what is frozen is set free."""
    held: bool = True
    """Whether it is put into a group of the optimizer then."""
    holds_frozen: bool = False
    """Whether the optimizer holds what is frozen, too."""
    beside: int = -1
    """A step from which a second optimizer steps all parameters."""
    freezes: int = -1
    """A step before which a trained parameter is frozen."""

    def __call__(self, t: Training) -> None:
        model = t.model("Net", PARAMETERS, frozen=FROZEN)
        held = [one for name, one in model.parameters.items() if name not in FROZEN or self.holds_frozen]
        optimizer, second = t.adamw(held), None
        t.mode(model, True)
        for step in range(self.steps):
            if step == self.thaws:
                self._thaw(t, model, optimizer)
            if step == self.freezes:
                t.change(model.parameters["fc2.weight"].flag, FALSE, 0)
            if self.plays:
                self._play(t, model, training=step != self.plays_in_eval)
            t.zero_grad(optimizer)
            t.batch()
            t.forward(model)
            t.loss()
            t.backward(model)
            t.clip(optimizer, 1.0)
            t.step(optimizer)
            if step == self.beside:
                second = t.adamw([*model.parameters.values()])
            if second is not None:
                t.step(second)
            if step in self.evaluates:
                t.mode(model, step in self.forgets_eval)
                with t.context(grad=False):
                    t.forward(model, line="evaluate")
                t.mode(model, True)

    def _play(self, t: Training, model: Model, *, training: bool) -> None:
        if not training:
            t.mode(model, False)
        with t.context(grad=False):
            t.forward(model, line="play")
        if not training:
            t.mode(model, True)

    def _thaw(self, t: Training, model: Model, first: Optimizer) -> None:
        thawed = [model.parameters[name] for name in FROZEN]
        for parameter in thawed:
            t.change(parameter.flag, TRUE, 1)
            parameter.requires_grad = True
        if not self.held:
            return
        first.groups.append(thawed)
        first.rates.append(0.001)
        first.rate_variables.append(
            t.symbol(
                "var", kind="lr", root=0, opt=first.number, name="group1.lr", shape=[], dtype="float64", same=0,
                requires_grad=False, group=1,
            )
        )  # fmt: skip
        hyper = {"lr": 0.001, "betas": {"tuple": [0.9, 0.999]}, "eps": 1e-8, "weight_decay": 0.01, "foreach": None}
        params = [parameter.variable for parameter in thawed]
        t.symbol("group", opt=first.number, index=1, params=params, hyper=hyper, seq=t._clock)


def told(recorder: Recorder, story: Phases, known: Phases | None = None) -> dict[str, int]:
    """The first step of each incident, by its title; `known`: what golden does."""
    golden = recorder.learn(known or Phases())
    assert sentences(golden, "Modes")
    assert any(text.startswith("Parameters are frozen") for text in sentences(golden, "Covered"))
    path = recorder.path()
    t = Training(path, seed=5)
    story(t)
    t.write()
    found = follow(path, golden)[1]
    return {incident.cause.title: incident.cause.step for incident in found.incidents}


def test_an_evaluation_that_golden_never_came_to_is_silent(recorder: Recorder) -> None:
    assert told(recorder, Phases(steps=90, evaluates=[20, 21, 80])) == {}


def test_what_golden_does_without_gradients_is_still_held_against_it(recorder: Recorder) -> None:
    found = told(recorder, Phases(steps=40, evaluates=[20, 30], plays_in_eval=25))
    assert list(found.values()) == [25]
    assert "eval mode" in next(iter(found))


def test_an_evaluation_that_golden_has_at_its_end_is_held_against_it(recorder: Recorder) -> None:
    known = Phases(plays=False, evaluates=[GOLDEN_STEPS - 1])
    later = Phases(steps=90, plays=False, evaluates=[20, 50, 80])
    assert told(recorder, later, known) == {}
    found = told(recorder, replace(later, forgets_eval=[50]), known)
    assert list(found.values()) == [51]
    assert "train mode" in next(iter(found))


def test_parameters_that_are_set_free_for_an_optimizer_are_silent(recorder: Recorder) -> None:
    assert told(recorder, Phases(steps=90, thaws=30)) == {}


@pytest.mark.parametrize("steps", [35, 90, 200])
def test_parameters_that_are_set_free_for_nobody_are_told_at_that_step(recorder: Recorder, steps: int) -> None:
    found = told(recorder, Phases(steps=steps, thaws=30, held=False))
    assert list(found.values()) == [30]
    assert "in no optimizer" in next(iter(found))


def test_parameters_that_the_optimizer_has_held_all_along_are_set_free_in_silence(recorder: Recorder) -> None:
    known = Phases(holds_frozen=True)
    assert told(recorder, replace(known, steps=90), known) == {}
    assert told(recorder, replace(known, steps=90, thaws=30, held=False), known) == {}


@pytest.mark.parametrize("thaws", [0, 3, GOLDEN_STEPS - 1])
def test_what_is_free_in_steps_that_golden_had_is_told(recorder: Recorder, thaws: int) -> None:
    known = Phases(holds_frozen=True)
    found = told(recorder, replace(known, steps=90, thaws=thaws, held=False), known)
    assert any("were frozen in the golden run" in title for title in found), [*found]
    assert max(found.values()) < GOLDEN_STEPS


def test_parameters_that_two_optimizers_step_once_they_are_free_are_told(recorder: Recorder) -> None:
    known = Phases(holds_frozen=True)
    found = told(recorder, replace(known, steps=90, thaws=30, beside=30, held=False), known)
    assert any("more than one optimizer" in title and step == 30 for title, step in found.items()), found


def test_an_optimizer_that_is_made_later_held_nothing_before(recorder: Recorder) -> None:
    found = told(recorder, Phases(steps=200, beside=120, thaws=120, held=False))
    assert set(found.values()) == {120}, found


@pytest.mark.parametrize("steps", [35, 90])
def test_a_trained_parameter_that_is_frozen_is_told_at_that_step(recorder: Recorder, steps: int) -> None:
    found = told(recorder, Phases(steps=steps, freezes=30))
    assert set(found.values()) == {30}
    assert any("frozen" in title for title in found)
