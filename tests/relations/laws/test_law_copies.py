"""Copies, averages and teachers."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from law_verdict import Verdict, verdict
from trace_builder import Model
from training_story import Loop, Story, Training

from pytest_traincheck.relations.averages import Averages, Keeps
from pytest_traincheck.relations.base import Hypothesis
from pytest_traincheck.relations.laws.law import table

if TYPE_CHECKING:
    from training_story import Recorder

SHAPES = {"fc.weight": (4, 3)}


def copied(t: Training, equal: bool = True) -> tuple[Model, Model]:
    """A model, and another one of its class that begins with its values or with others."""
    model = t.model(parameters=SHAPES)
    first = t.digest(model.parameters["fc.weight"].variable)
    with patch("trace_builder.digest_of", lambda *parts: first if equal else hash(parts) & 0xFFFFFF):
        other = t.model(parameters=SHAPES, frozen=tuple(SHAPES), layers=())
    return model, other


def followed(*, equal: bool = True, moves: bool = True, asked: bool = False, saved: bool = False) -> Story:
    """A copy that is updated after each step or not, and that is evaluated or asked in training."""

    def story(t: Training) -> None:
        model, other = copied(t, equal)
        weight = other.parameters["fc.weight"]
        t.measure("parameter.initialised", 1.0, variable=weight.variable)
        if saved:
            with t.call("torch.nn.Module.load_state_dict", type="mode", module=other.number):
                t.measure("load.given", 1.0, variable=weight.variable)
        optimizer = t.adamw(list(model.parameters.values()))
        for _ in range(5):
            t.zero_grad(optimizer)
            if asked:
                with t.no_grad():
                    t.forward(other)
            t.forward(model)
            t.backward(model)
            t.step(optimizer)
            if moves:
                t.move(weight)
        if not asked:
            t.mode(other, False)
            with t.no_grad():
                t.forward(other, line="evaluate")

    return story


def test_average_that_keeps_little(recorder: Recorder) -> None:
    """What updates keep is known from sketches, which the relation that reads them has tests of."""
    run = recorder.record(Loop())
    place = table(run.processes[0], 0, [True], [run.processes[0].steps[0].row])

    wanted: tuple[tuple[float, Verdict], ...] = ((0.99, "holds"), (0.1, "broken"), (0.0, "silent"))
    for kept, said in wanted:
        claims = [Hypothesis("Averages", "Net#1", Keeps("Net#1", "Net", 0, kept))]
        run.memo(("law", "CopyKeepsMost"), lambda: None)
        del run._memo["law", "CopyKeepsMost"]
        with (
            patch.object(Averages, "hypotheses", return_value=claims),
            patch.object(Averages, "examples", return_value=place),
        ):
            assert verdict("CopyKeepsMost", run) == said


LOOPS = [
    ("CopyFollows", Loop(), "silent"),
    ("CopyBeginsEqual", Loop(), "silent"),
    ("TeacherKnows", Loop(), "silent"),
]
STORIES = [
    ("CopyFollows", followed(), "holds"),
    ("CopyFollows", followed(moves=False), "broken"),
    ("CopyFollows", followed(moves=False, asked=True), "silent"),
    ("CopyBeginsEqual", followed(), "holds"),
    ("CopyBeginsEqual", followed(equal=False), "broken"),
    ("TeacherKnows", followed(equal=False, moves=False, asked=True, saved=True), "holds"),
    ("TeacherKnows", followed(moves=False, asked=True), "holds"),
    ("TeacherKnows", followed(equal=False, moves=False, asked=True), "broken"),
]


@pytest.mark.parametrize(("name", "loop", "said"), LOOPS)
def test_of_loops(name: str, loop: Loop, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.record(loop)) == said


@pytest.mark.parametrize(("name", "story", "said"), STORIES)
def test_of_stories(name: str, story: Story, said: Verdict, recorder: Recorder) -> None:
    assert verdict(name, recorder.tell(story)) == said


def test_in_another_type_nothing_is_known_of_what_a_copy_begins_with(recorder: Recorder) -> None:
    def story(t: Training) -> None:
        followed(equal=False)(t)
        for symbol in t.symbols:
            if symbol["k"] == "var" and symbol["kind"] == "parameter" and symbol["root"] > 1:
                symbol["dtype"] = "bfloat16"

    assert verdict("CopyBeginsEqual", recorder.tell(story)) == "silent"
