"""What a schedule makes of a hyper-parameter goes on in another process; what somebody sets there does not."""

from __future__ import annotations

from typing import Any

import pytest
from continued_story import Values, load, save, take
from judgements import sentences
from late_story import GOLDEN_STEPS, PARAMETERS, follow
from training_story import ADAMW, Recorder, Training

DECAY = 0.01


def settings(beta: float, **others: Any) -> dict[str, Any]:
    values = {"lr": 0.01, "betas": {"tuple": [beta, 0.999]}, "eps": 1e-8, "weight_decay": DECAY, "foreach": None}
    return values | others


def beta_of(step: int) -> float:
    """The momentum of a one-cycle schedule, which it has moved to when it begins a step."""
    return 0.95 - 0.0004 * step - 0.00002 * step**2


def train(t: Training, begin: int, end: int, left: Values, *, cycles: bool = True, **others: Any) -> None:
    """Steps of a model with one group, whose momentum follows a schedule.

    Args:
        cycles: whether there is a schedule.
        others: hyper-parameters that the group has in its first step and later, whatever was saved.
    """
    model = t.model("Net", PARAMETERS)
    held = [*model.parameters.values()]
    optimizer = t.optimizer(ADAMW, [held], [settings(0.9)])
    if begin:
        with t.call("torch.load", type="io"):
            pass
        load(t, model, left[begin], ())
        with t.call("torch.optim.AdamW.load_state_dict", type="mode", optimizer=optimizer.number):
            pass
    t.mode(model, True)
    params = [parameter.variable for parameter in held]
    for step in range(begin, end):
        if cycles or step == begin:
            hyper = settings(beta_of(step) if cycles else beta_of(0), **others)
            t.symbol("group", opt=optimizer.number, index=0, params=params, hyper=hyper, seq=t._clock)
        take(t, model, optimizer, load=t.batch, clears=True, begins=step == begin, kept=begin > 0)
    left[end] = {name: (t.state(one.variable), t.digest(one.variable)) for name, one in model.parameters.items()}
    save(t, model, exchanges=False)


def told(recorder: Recorder, first: dict[str, Any] | None = None, **second: Any) -> dict[str, int]:
    """The first step of each incident, by its title, of a training of 60 steps that another process goes on with."""
    golden = recorder.learn(lambda t: train(t, 0, GOLDEN_STEPS, {}, **(first or {})))
    assert any("betas" in text for text in sentences(golden, "Hyperparameter"))
    path, left = recorder.path(), Values()
    for number, (begin, end) in enumerate([(0, 60), (60, 90)]):
        t = Training(path, seed=7, started=1.0 + number)
        t._moment = 10_000 * number
        train(t, begin, end, left, **((second if begin else first) or {}))
        t.write(finished=True, ended=1.5 + number)
    return {title: incident.cause.step for title, (incident, _) in follow(path, golden)[0].items()}


def test_what_a_schedule_has_made_of_momentum_goes_on(recorder: Recorder) -> None:
    assert told(recorder) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("betas", {"tuple": [0.5, 0.999]}),
        ("betas", {"tuple": [beta_of(60), 0.99]}),
        ("weight_decay", 0.0),
        ("amsgrad", True),
    ],
    ids=["far from the schedule", "the one that is not scheduled", "not scheduled", "not there before"],
)
def test_what_is_set_otherwise_at_a_resume_is_told(recorder: Recorder, name: str, value: Any) -> None:
    first = {"amsgrad": False}
    found = told(recorder, first, **{**first, name: value})
    assert list(found.values()) == [60], found
    assert f"({name})" in next(iter(found))


def test_momentum_that_no_schedule_moves_is_what_it_was(recorder: Recorder) -> None:
    still = {"cycles": False}
    assert told(recorder, still, cycles=False) == {}
    found = told(recorder, still, cycles=False, betas={"tuple": [0.9499, 0.999]})
    assert list(found.values()) == [60], found
