"""Averages of parameters that are frozen at first, and set free in steps that golden's runs never came to."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from judgements import sentences
from late_story import GOLDEN_STEPS, follow
from trace_builder import TRUE, Model
from training_story import Recorder, Training

STEM = ("stem.weight", "stem.bias")
PARAMETERS = {"stem.weight": (4, 3), "stem.bias": (4,), "fc1.weight": (4, 4), "fc2.weight": (5, 4)}


@dataclass(frozen=True)
class Averaged:
    """A student that is part of a larger model, its average, a teacher that is no part of it and stays, and something
    else that does.
    """

    steps: int = GOLDEN_STEPS
    rounds: int = 2
    """So many of the first steps move the average of what is frozen, by rounding."""
    thaws: int = -1
    """A step before which the stem is set free."""
    held: bool = True
    """Whether the optimizer holds the stem from the beginning."""
    head: bool = True
    """Whether there is anything that is trained from the beginning beside the student."""
    stops: int = 1000
    """A step behind which the average follows no more."""
    teacher_moves: int = -1
    """A step behind which something is written into the stem of the teacher."""

    def __call__(self, t: Training) -> None:
        parameters = {f"student.{name}": shape for name, shape in PARAMETERS.items()}
        frozen = [name for name in parameters if "stem" in name or not self.head]
        model = t.model("Distiller", {**parameters, "regressor.weight": (6, 4)}, frozen=frozen)
        average, teacher = (t.model(name, PARAMETERS, frozen=[*PARAMETERS], layers=()) for name in ("Net", "Net"))
        t.model("Features", {"base.weight": (7, 3)}, frozen=("base.weight",), layers=())
        held = [one for name, one in model.parameters.items() if self.held or name not in frozen]
        optimizer = t.adamw(held)
        t.mode(model, True)
        for step in range(self.steps):
            if step == self.thaws:
                self._thaw(t, model, frozen)
            t.zero_grad(optimizer)
            t.batch()
            t.forward(model)
            t.loss()
            t.backward(model)
            t.step(optimizer, without=[] if 0 <= self.thaws <= step else frozen)
            if step < self.stops:
                self._follow(t, average, step)
            if step == self.teacher_moves:
                t.move(teacher.parameters["stem.weight"])

    def _thaw(self, t: Training, model: Model, frozen: list[str]) -> None:
        for name in frozen:
            t.change(model.parameters[name].flag, TRUE, 1)
            model.parameters[name].requires_grad = True

    def _follow(self, t: Training, average: Model, step: int) -> None:
        for name, parameter in average.parameters.items():
            free = 0 <= self.thaws <= step or (self.head and name not in STEM)
            if free or (step < self.rounds and name == "stem.weight"):
                t.move(parameter)


KNOWN = Averaged()


def told(recorder: Recorder, story: Averaged, known: Averaged = KNOWN) -> dict[str, int]:
    """The first step of each incident, by its title; `known`: what golden does."""
    golden = recorder.learn(known)
    assert any("no optimizer holds do not change" in text for text in sentences(golden, "Moves"))
    path = recorder.path()
    t = Training(path, seed=5)
    story(t)
    t.write()
    return {incident.cause.title: incident.cause.step for incident in follow(path, golden)[1].incidents}


@pytest.mark.parametrize("head", [True, False], ids=["a part is frozen", "all of it is frozen"])
def test_the_average_of_what_is_set_free_later_is_silent(recorder: Recorder, head: bool) -> None:
    known = replace(KNOWN, head=head)
    assert told(recorder, replace(known, steps=90, thaws=30), known) == {}


def test_an_average_that_stops_is_told_where_a_part_was_set_free(recorder: Recorder) -> None:
    found = told(recorder, replace(KNOWN, steps=90, thaws=30, stops=60))
    assert list(found.values()) == [61], found
    assert "stem.weight" in next(iter(found))


@pytest.mark.parametrize("moves", [20, 60])
def test_a_teacher_that_drifts_is_told_at_its_step_though_the_student_s_stem_is_free(
    recorder: Recorder, moves: int
) -> None:
    found = told(recorder, replace(KNOWN, steps=90, thaws=30, teacher_moves=moves))
    assert list(found.values()) == [moves + 1], found
    assert "never changed" in next(iter(found))
