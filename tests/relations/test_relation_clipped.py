"""Clipped: a step uses no more gradient than clipping has measured and let through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import nan, sqrt
from typing import Any

import pytest
from judgements import broken, rule, sentences, titles
from trace_builder import NONFINITE, NONZERO, Model, Optimizer, Parameter, digest_of
from training_story import CLIP, Recorder, Training

from pytest_traincheck.relations import Deviation
from pytest_traincheck.rules.model import Scope

RULE = f"`AdamW[Net]` uses no gradients but those that `{CLIP}` has clipped."
NORMS = {"fc1.weight": 3.0, "fc1.bias": 0.5, "fc2.weight": 4.0}
"""Of the gradients that a backward pass leaves, each 10 % larger from step to step; more than 5 together."""
ALL = tuple(NORMS)


class Clipping:
    """A training whose gradients have norms, with one switch for each thing that clipping may do to them."""

    def __init__(self, t: Training) -> None:
        self.t = t
        self.model: Model = t.model()
        self.norms: dict[str, float] = {}
        self.moment = 0

    def backward(self, factor: float = 1.0, state: int = NONZERO) -> None:
        with self.t.call("torch.autograd.backward", type="autograd", line=13):
            for name, norm in NORMS.items():
                self.set(name, norm * factor, state)

    def set(self, name: str, norm: float, state: int = NONZERO) -> None:
        self.moment += 1
        self.norms[name] = norm
        self.t.change(self.model.parameters[name].gradient, state, digest_of(self.t.seed, name, self.moment), norm)

    def clip(
        self,
        names: Sequence[str] = ALL,
        max_norm: float | str = 1.0,
        norm_type: float | str = 2.0,
        *,
        read: bool = True,
    ) -> None:
        """`clip_grad_norm_` of these; what it returns is not `read` where it is on a GPU."""
        total = sqrt(sum(self.norms[name] ** 2 for name in names))
        value = total if read else nan
        with self.t.call(CLIP, type="clip", args={"max_norm": max_norm, "norm_type": norm_type}, value=value, line=14):
            if total > float(max_norm):
                for name in names:
                    self.set(name, self.norms[name] * float(max_norm) / (total + 1e-6))

    def optimizer(self, names: Sequence[str] = ALL, kind: str = "torch.optim.AdamW") -> Optimizer:
        held: list[Parameter] = [self.model.parameters[name] for name in names]
        return self.t.adamw(held, kind=kind)


Does = Callable[[Clipping], object]


def usual(t: Training, clips: Does = Clipping.clip, after: Does = lambda _: None, factor: float = 1.0) -> None:
    """Four steps; `clips` is what is done about the gradients, `after` what happens between that and the step."""
    told = Clipping(t)
    optimizer = told.optimizer()
    for step in range(4):
        t.zero_grad(optimizer)
        t.forward(told.model)
        t.loss()
        told.backward(factor * 1.1**step)
        clips(told)
        after(told)
        t.step(optimizer)


def with_(**switches: Any) -> Callable[[Training], None]:
    return partial(usual, **switches)


def only(*names: str, **arguments: Any) -> Does:
    return lambda told: told.clip(names, **arguments)


def by_parts(told: Clipping, *parts: Sequence[str]) -> None:
    for part in parts or (("fc1.weight", "fc1.bias"), ("fc2.weight",)):
        told.clip(part)


def test_all_gradients_are_clipped(recorder: Recorder) -> None:
    golden = recorder.learn(usual)
    assert sentences(golden, "Clipped") == [RULE]
    assert (rule(golden, RULE).scope, rule(golden, RULE).examples) == (Scope.PINNED, 8)
    assert not titles(recorder.judge(golden, usual), "Clipped")


@pytest.mark.parametrize("factor", [1.0, 0.1], ids=["to max_norm", "measured"])
def test_a_parameter_that_clipping_is_not_given(recorder: Recorder, factor: float) -> None:
    """Whether or not there is something to cut off."""
    golden = recorder.learn(with_(factor=factor))
    outcome = recorder.judge(golden, with_(clips=only("fc1.weight", "fc1.bias"), factor=factor))
    violation = broken(outcome, RULE)
    assert (violation.step, violation.count, violation.source) == (0, 4, "train.py:14")
    assert violation.deviation is Deviation.FEWER
    seen = "4.12311, where clipping let through 1" if factor == 1.0 else "0.502494, where clipping let through 0.304138"
    assert violation.title == (
        f"In the golden run `{CLIP}` clipped all gradients that `AdamW[Net]` uses; in the candidate the optimizer uses "
        f"gradients with a norm of {seen}: a parameter is left out of clipping, or a gradient changes after it."
    )


def test_a_gradient_that_grows_after_it_was_clipped(recorder: Recorder) -> None:
    outcome = recorder.judge(recorder.learn(usual), with_(after=Clipping.backward))
    assert broken(outcome, RULE).count == 4


def test_a_part_that_is_no_longer_clipped(recorder: Recorder) -> None:
    golden = recorder.learn(with_(clips=by_parts))
    assert sentences(golden, "Clipped") == [RULE]
    assert not titles(recorder.judge(golden, with_(clips=by_parts)), "Clipped")
    assert broken(recorder.judge(golden, with_(clips=only("fc1.weight", "fc1.bias"))), RULE).step == 0


def test_what_a_gpu_returns_is_not_known_but_the_bound_is(recorder: Recorder) -> None:
    golden = recorder.learn(with_(clips=only(*ALL, read=False)))
    assert sentences(golden, "Clipped") == [RULE]
    assert broken(recorder.judge(golden, with_(clips=only("fc1.bias", read=False))), RULE).step == 0


@pytest.mark.parametrize(
    "told",
    [
        with_(factor=0.01),
        with_(clips=lambda _: None),
        with_(clips=only(*ALL, max_norm=0.5)),
        with_(clips=only(*ALL, norm_type="inf")),
        with_(clips=only("fc1.weight", max_norm="inf")),
        with_(clips=lambda told: (told.clip(), told.clip(("fc1.bias",)))),
        with_(clips=by_parts),
        with_(after=lambda told: told.set("fc1.weight", 0.001)),
        with_(after=lambda told: told.set("fc1.weight", nan, NONFINITE)),
        with_(factor=0.0),
    ],
    ids=["small", "none", "another bound", "another norm", "measures", "logs too", "by parts", "less", "NaN", "zero"],
)
def test_what_uses_no_more_than_it_clips(recorder: Recorder, told: Callable[[Training], None]) -> None:
    assert not titles(recorder.judge(recorder.learn(usual), told), "Clipped")


@pytest.mark.parametrize(
    "told",
    [
        with_(clips=only("fc2.weight", "fc1.bias")),
        with_(clips=lambda told: (told.set("fc1.bias", 0.1), told.clip(("fc1.weight", "fc2.weight")))),
        with_(clips=only(*ALL, norm_type="inf")),
        with_(clips=only(*ALL, max_norm="inf")),
        with_(clips=only(*ALL, read=False), factor=0.1),
        with_(after=Clipping.backward),
        with_(clips=lambda _: None),
        with_(factor=0.0),
    ],
    ids=[
        "a part on purpose",
        "a small part",
        "another norm",
        "measures",
        "nothing cut off on a GPU",
        "grows",
        "none",
        "zero",
    ],
)
def test_where_golden_does_not_show_it_there_is_no_rule(recorder: Recorder, told: Callable[[Training], None]) -> None:
    assert not sentences(recorder.learn(told), "Clipped")


def in_turn(t: Training, second: float = 0.2, closure: bool = False) -> None:
    """Two optimizers, of which the first clips; the second one's gradients are `second` in length."""
    told = Clipping(t)
    optimizers = [told.optimizer(ALL[:2], "torch.optim.SGD"), told.optimizer(ALL[2:])]
    for _ in range(4):
        for optimizer in optimizers:
            t.zero_grad(optimizer)
        t.forward(told.model)
        t.loss()
        told.backward()
        told.set("fc2.weight", second)
        if closure:
            t.step(optimizers[0], closure=lambda: told.clip(ALL[:2]))
        else:
            told.clip(ALL[:2])
            t.step(optimizers[0])
        t.step(optimizers[1])


def test_an_optimizer_whose_gradients_are_not_clipped_has_no_rule(recorder: Recorder) -> None:
    golden = recorder.learn(in_turn)
    assert sentences(golden, "Clipped") == [RULE.replace("AdamW", "SGD")]
    assert not titles(recorder.judge(golden, partial(in_turn, second=7.0)), "Clipped")


def test_what_a_closure_clips_was_not_there_when_the_step_began(recorder: Recorder) -> None:
    assert not sentences(recorder.learn(partial(in_turn, closure=True)), "Clipped")
