"""A parameter that another one replaces under its name, in steps that golden's runs never came to."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from late_story import GOLDEN_STEPS, follow
from trace_builder import Model, Optimizer
from training_story import Recorder, Training

PARAMETERS = {"embed.weight": (6, 4), "body.weight": (4, 4), "head.weight": (6, 4)}


@dataclass(frozen=True)
class Replaced:
    """A model whose head is tied to its embedding. Before step `at` another parameter takes the place of `which`."""

    steps: int = GOLDEN_STEPS
    at: int = -1
    which: str = "head.weight"
    held: bool = False
    """Whether the optimizer is given what is new."""

    def __call__(self, t: Training) -> None:
        model = t.model("Net", PARAMETERS, tied={"head.weight": "embed.weight"})
        optimizer = t.adamw([model.parameters["embed.weight"], model.parameters["body.weight"]])
        t.mode(model, True)
        for step in range(self.steps):
            if step == self.at:
                self._replace(t, model, optimizer)
            t.zero_grad(optimizer)
            t.batch()
            t.forward(model)
            t.loss()
            t.backward(model)
            t.step(optimizer)

    def _replace(self, t: Training, model: Model, optimizer: Optimizer) -> None:
        old = model.parameters[self.which]
        members = optimizer.groups[0]
        if old.first is not None:
            new = t.another(model, self.which)
            t.group(optimizer, [*members, new] if self.held else members)
        elif not self.held:
            # The name stays that of the place; what has lost it is called by its own in the optimizer.
            orphan = t.orphan(optimizer, members.index(old), old.shape)
            t.group(optimizer, [orphan if each is old else each for each in members])


def told(recorder: Recorder, story: Replaced) -> dict[str, int]:
    """The first step of each incident, by the start of its title that says what is wrong."""
    path = recorder.path()
    t = Training(path, seed=5)
    story(t)
    t.write()
    found = follow(path, recorder.learn(Replaced()))[1]
    return {incident.cause.title: incident.cause.step for incident in found.incidents}


@pytest.mark.parametrize("which", ["head.weight", "body.weight"])
def test_what_no_optimizer_holds_is_told_at_that_step(recorder: Recorder, which: str) -> None:
    found = told(recorder, Replaced(steps=60, at=30, which=which))
    (title,) = [title for title in found if f"`Net.{which}` is in no optimizer" in title]
    assert found[title] == 30
    assert set(found.values()) == {30}


def test_what_the_optimizer_was_given_is_silent(recorder: Recorder) -> None:
    assert told(recorder, Replaced(steps=60, at=30, which="body.weight", held=True)) == {}


def test_weights_that_are_cut_loose_from_each_other_differ_from_then_on(recorder: Recorder) -> None:
    found = told(recorder, Replaced(steps=60, at=30, held=True))
    assert list(found.values()) == [30]
    assert "were tied in the golden run" in next(iter(found))
