"""An optimizer that takes over where golden's runs never came to, as LBFGS does after Adam."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from continued_story import load
from judgements import sentences
from late_story import GOLDEN_STEPS, follow
from training_story import ADAMW, Recorder, Training

from pytest_traincheck.online.follow import Followed
from pytest_traincheck.relations.later_optimizers import TakenOver

LBFGS = "torch.optim.LBFGS"


@dataclass(frozen=True)
class Phases:
    """Steps of Adam, and from one on those of another optimizer, whose closure goes backward several times."""

    steps: int = GOLDEN_STEPS
    switches: int = -1
    """The step from which the other one takes them; -1 for never."""
    both: bool = False
    """Whether both take a step from there on."""
    kind: str = LBFGS
    made_at_once: bool = True
    """Whether the other one is made before the first step."""
    skips: int = -1
    """A step before the switch that Adam does not take."""

    def __call__(self, t: Training) -> None:
        model = t.model()
        parameters = [*model.parameters.values()]
        optimizer = t.adamw(parameters)
        other = t.adamw(parameters, kind=self.kind) if self.made_at_once else None
        t.mode(model, True)
        for step in range(self.steps):
            switched = 0 <= self.switches <= step
            if switched and other is None:
                other = t.adamw(parameters, kind=self.kind)
            for _ in range(3 if switched and not self.both else 1):
                t.zero_grad(optimizer)
                t.batch()
                t.forward(model)
                t.loss()
                t.backward(model)
            if step != self.skips and (not switched or self.both):
                t.step(optimizer)
            if switched and other is not None:
                t.step(other)


def watched(recorder: Recorder, story: Phases) -> Followed:
    golden = recorder.learn(Phases(made_at_once=story.made_at_once))
    assert any("AdamW.step` is called exactly once" in text for text in sentences(golden, "Count"))
    assert any("exactly one optimizer" in text for text in sentences(golden, "Covered"))
    path = recorder.path()
    t = Training(path, seed=5)
    story(t)
    t.write()
    return follow(path, golden)[1]


def reported(recorder: Recorder, story: Phases) -> list[tuple[int, str]]:
    return [(incident.cause.step, incident.cause.title) for incident in watched(recorder, story).incidents]


@pytest.mark.parametrize("switches", [20, 60])
@pytest.mark.parametrize("made_at_once", [True, False])
def test_an_optimizer_that_takes_over_is_no_news(recorder: Recorder, switches: int, made_at_once: bool) -> None:
    found = watched(recorder, Phases(90, switches, made_at_once=made_at_once))
    assert [incident.cause.title for incident in found.incidents] == []
    assert found.taken_over == TakenOver(switches, ("LBFGS[Net]",))


def test_nothing_takes_over_where_one_optimizer_goes_on(recorder: Recorder) -> None:
    assert watched(recorder, Phases(90)).taken_over is None


def test_one_that_steps_beside_is_reported(recorder: Recorder) -> None:
    found = reported(recorder, Phases(90, 30, both=True))
    assert any("more than one optimizer" in title for _, title in found), found


def test_a_step_that_is_left_out_before_is_reported(recorder: Recorder) -> None:
    found = reported(recorder, Phases(90, 60, skips=40))
    assert [step for step, _ in found] == [40], found


def test_a_resume_with_another_optimizer_is_reported(recorder: Recorder) -> None:
    """No step of the same process comes before it, and the first one did not make it."""
    golden = recorder.learn(Phases(made_at_once=False))
    path, left = recorder.path(), dict[str, tuple[int, int]]()
    for number, (begin, end, kind) in enumerate([(0, 30, ADAMW), (30, 70, LBFGS)]):
        t = Training(path, seed=5, started=1.0 + number)
        t._moment = 10_000 * number
        model = t.model()
        optimizer = t.adamw([*model.parameters.values()], kind=kind)
        if begin:
            load(t, model, left, ())
        t.mode(model, True)
        for _ in range(begin, end):
            t.zero_grad(optimizer)
            t.batch()
            t.forward(model)
            t.loss()
            t.backward(model)
            t.step(optimizer)
        left |= {name: (t.state(each.variable), t.digest(each.variable)) for name, each in model.parameters.items()}
        t.write(finished=True, ended=1.5 + number)
    found = follow(path, golden)[1]
    assert found.taken_over is None
    assert "AdamW.step" in " ".join(incident.cause.title for incident in found.incidents)
