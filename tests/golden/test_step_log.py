"""Logs of steps in a golden's file: what is written comes back, and what is damaged is refused."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pytest_traincheck.golden.step_log import LEAST, MOST, Step, StepLog, agreeing, kept, shared


def log(steps: int = 3, **changes: Any) -> StepLog:
    made = [
        Step(
            "SGD[Net]",
            number,
            (("Net", f"{number:08x}"),),
            ("aa", "bb"),
            {"torch": f"s{number}"},
            (0.5 / (number + 1),),
            (("torch.nn.functional.mse_loss", math.inf),),
            1.5,
            (0.1,),
        )
        for number in range(steps)
    ]
    values = np.arange(3 * (steps + 1), dtype=np.uint16).reshape(steps + 1, 3)
    gradients = np.ones((steps, 2), dtype=np.uint16)
    for name, number in changes.items():
        if name == "values":
            values[number] += 1
        elif name == "gradients":
            gradients[number] += 1
        else:
            old = made[number]
            made[number] = Step(**{**vars(old), name: (*getattr(old, name), *getattr(old, name))})
    return StepLog(tuple(made), ("Net.a", "Net.b"), ("Net.seen",), values, gradients)


def test_it_comes_back_from_text() -> None:
    one = replace(log(), waited=(2, 3))
    again = StepLog.from_json(json.loads(json.dumps(one.to_json(), allow_nan=False)))
    assert (again.steps, again.trained, again.others) == (one.steps, one.trained, one.others)
    assert again.waited == one.waited
    assert "waited" not in log().to_json()
    assert (again.values == one.values).all()
    assert (again.gradients == one.gradients).all()


def damage(path: tuple[Any, ...], value: Any) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        for key in path[:-1]:
            content = content[key]
        content[path[-1]] = value

    return change


DAMAGED = {
    "another key": damage(("more",), 1),
    "no list of steps": damage(("steps",), {}),
    "a step that is none": damage(("steps", 0), {}),
    "a step with too few fields": damage(("steps", 0), ["SGD[Net]"]),
    "a window that is none": damage(("steps", 0, 1), "first"),
    "a negative window": damage(("steps", 0, 1), -1),
    "an input without a model": damage(("steps", 0, 2), ["00"]),
    "a loss that is no number": damage(("steps", 0, 5), ["much"]),
    "a loss that is no text": damage(("steps", 0, 5), [0.5]),
    "random states that are a list": damage(("steps", 0, 4), []),
    "a name that is none": damage(("trained", 0), 3),
    "too few names": damage(("others",), []),
    "a table that is no text": damage(("values",), 3),
    "a table that is no base64": damage(("values",), "ä"),
    "waits that are no list": damage(("waited",), 3),
    "a wait after less than no step": damage(("waited",), [-1]),
    "a table that is too short": damage(("gradients",), "AAA="),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_is_damaged_is_refused(name: str) -> None:
    content = copy.deepcopy(log().to_json())
    DAMAGED[name](content)
    with pytest.raises(ValueError, match=r".+"):
        StepLog.from_json(content)


@pytest.mark.parametrize("what", ["values", "gradients", "inputs", "losses", "rates"])
def test_a_run_agrees_up_to_its_first_difference(what: str) -> None:
    # Values stand before the step of their number, so that the step before has left them.
    assert agreeing(log(5), log(5, **{what: 3})) == (2 if what == "values" else 3)
    (cut,) = shared([log(5)], [log(5, **{what: 3})])
    assert len(cut.steps) == agreeing(log(5), log(5, **{what: 3}))
    assert len(cut.values) == len(cut.steps) + 1


def test_runs_of_other_processes_share_nothing() -> None:
    assert shared([log(), log()], [log()]) == ()


def test_of_large_models_fewer_steps_are_kept() -> None:
    assert kept(10_000, 1) == 10_000
    assert kept(128, MOST) == LEAST
    assert kept(5, MOST) == 5
