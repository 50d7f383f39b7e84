"""A process that goes on with a training makes at once what had been added to it on the way."""

from __future__ import annotations

import pytest
from continued_story import load, save, take
from judgements import sentences
from late_story import FROZEN, GOLDEN_STEPS, PARAMETERS, follow
from trace_builder import TRUE, Model, Optimizer
from training_story import ADAMW, Recorder, Training

ADDED = 20
HYPER = {"lr": 0.01, "betas": {"tuple": [0.9, 0.999]}, "eps": 1e-8, "weight_decay": 0.01, "foreach": None}
Values = dict[str, tuple[int, int]]


def set_free(t: Training, model: Model) -> None:
    for name in FROZEN:
        t.change(model.parameters[name].flag, TRUE, 1)
        model.parameters[name].requires_grad = True


def add_group(t: Training, model: Model, optimizer: Optimizer, rate: float) -> None:
    """What `add_param_group` does."""
    optimizer.groups.append([model.parameters[name] for name in FROZEN])
    optimizer.rates.append(rate)
    optimizer.rate_variables.append(
        t.symbol(
            "var", kind="lr", root=0, opt=optimizer.number, name="group1.lr", shape=[], dtype="float64", same=0,
            requires_grad=False, group=1,
        )
    )  # fmt: skip
    params = [model.parameters[name].variable for name in FROZEN]
    t.symbol("group", opt=optimizer.number, index=1, params=params, hyper={**HYPER, "lr": rate}, seq=t._clock)


def train(t: Training, begin: int, end: int, left: Values, *, rate: float = 0.001) -> None:
    """Steps of a model, a part of which is set free with a rate of its own after `ADDED` of them."""
    model = t.model("Net", PARAMETERS, frozen=FROZEN)
    held = [one for name, one in model.parameters.items() if name not in FROZEN]
    if begin:
        set_free(t, model)
        groups = [held, [model.parameters[name] for name in FROZEN]]
        optimizer = t.optimizer(ADAMW, groups, [HYPER, {**HYPER, "lr": rate}])
        with t.call("torch.load", type="io"):
            pass
        load(t, model, left, ())
        with t.call("torch.optim.AdamW.load_state_dict", type="mode", optimizer=optimizer.number):
            pass
    else:
        optimizer = t.optimizer(ADAMW, [held], [HYPER])
    t.mode(model, True)
    for step in range(begin, end):
        if step == ADDED:
            set_free(t, model)
            add_group(t, model, optimizer, rate)
        take(t, model, optimizer, load=t.batch, clears=True, begins=step == begin, kept=begin > 0)
    left.update({name: (t.state(one.variable), t.digest(one.variable)) for name, one in model.parameters.items()})
    save(t, model, exchanges=False)


@pytest.mark.parametrize(("rate", "told_at"), [(0.001, []), (0.02, [30])], ids=["as it was left", "another one"])
def test_settings_of_a_group_are_those_that_it_was_left_with(
    recorder: Recorder, rate: float, told_at: list[int]
) -> None:
    golden = recorder.learn(lambda t: train(t, 0, GOLDEN_STEPS, {}))
    assert sentences(golden, "Hyperparameter")
    path, left = recorder.path(), Values()
    for number, (begin, end) in enumerate([(0, 30), (30, 170)]):
        t = Training(path, seed=7, started=1.0 + number)
        t._moment = 10_000 * number
        train(t, begin, end, left, **({"rate": rate} if begin else {}))
        t.write(finished=True, ended=1.5 + number)
    told, found = follow(path, golden)
    assert [incident.cause.step for incident, _ in told.values()] == told_at, [*told]
    assert found.steps == 170
