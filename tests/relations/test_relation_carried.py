"""Carried: momentum, moments and step counts go from each step of an optimizer to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from judgements import broken, rule, sentences, titles, violations
from training_story import Measured, Recorder, Training

from pytest_traincheck.check.evaluate import CheckOutcome, check_run
from pytest_traincheck.infer import learn
from pytest_traincheck.rules.model import Scope

RULE = "`AdamW[Net]` keeps its state (momentum, moments, step counts) from step to step."
Counts = Sequence[int]
"""For how many parameters there is state, step by step."""

ALL = (3, 3, 3, 3, 3, 3)


def stepping(t: Training, held: Counts = ALL, left: Counts = ALL) -> None:
    """A training whose optimizer holds so much state before each further step, and after each step."""

    def measure(step: int) -> None:
        if step and step < len(held):
            t.measure("optimizer.held", float(held[step]), optimizer=1)
        if step < len(left):
            t.measure("optimizer.left", float(left[step]), optimizer=1)

    Measured(step=measure).tell(t)


def test_state_that_is_carried(recorder: Recorder) -> None:
    golden = recorder.learn(stepping)
    assert sentences(golden, "Carried") == [RULE]
    assert (rule(golden, RULE).scope, rule(golden, RULE).examples) == (Scope.PINNED, 10)
    assert not titles(recorder.judge(golden, stepping), "Carried")


def test_state_that_is_cleared(recorder: Recorder) -> None:
    outcome = recorder.judge(recorder.learn(stepping), lambda t: stepping(t, (0, 3, 0, 0, 3, 3)))
    violation = broken(outcome, RULE)
    assert (violation.step, violation.count) == (2, 2)
    assert violation.title == (
        "In the golden run `AdamW[Net]` kept its state (momentum, moments, step counts) from step to step; in the "
        "candidate it takes a step without any state: before that step the state was cleared or replaced, or the "
        "optimizer was made again."
    )


def test_the_state_of_one_parameter_that_is_lost(recorder: Recorder) -> None:
    violation = broken(recorder.judge(recorder.learn(stepping), lambda t: stepping(t, (0, 3, 3, 3, 2, 3))), RULE)
    assert (violation.step, violation.count) == (4, 1)
    assert violation.candidate == "without the state of 1 of 3 parameters"


@pytest.mark.parametrize(
    ("held", "left"),
    [
        ((0, 1, 1, 2, 2, 3), (1, 1, 2, 2, 3, 3)),
        ((0, 0, 3, 3, 3, 3), (0, 3, 3, 3, 3, 3)),
        ((0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 0)),
        ((0, 4, 3, 3, 3, 3), ALL),
        ((), ()),
        ((), ALL),
        (ALL, ()),
    ],
    ids=["unfrozen", "first without gradients", "no state", "more", "nothing measured", "only left", "only held"],
)
def test_what_is_as_it_should_be(recorder: Recorder, held: Counts, left: Counts) -> None:
    golden = recorder.learn(stepping)
    assert not titles(recorder.judge(golden, lambda t: stepping(t, held, left)), "Carried")


@pytest.mark.parametrize(("held", "left"), [((0,) * 6, (0,) * 6), ((0, 3, 0, 3, 3, 3), ALL), ((), ALL)])
def test_where_golden_carries_nothing_or_drops_it_there_is_no_rule(
    recorder: Recorder, held: Counts, left: Counts
) -> None:
    assert not sentences(recorder.learn(lambda t: stepping(t, held, left)), "Carried")


def test_each_optimizer_is_judged_by_its_own_steps(recorder: Recorder) -> None:
    """Generator and critic: what one holds says nothing of the other."""

    def two(t: Training, cleared: int = -1) -> None:
        model = t.model()
        weights = list(model.parameters.values())
        optimizers = [t.adamw(weights[:1], kind="torch.optim.SGD"), t.adamw(weights[1:])]
        for step in range(4):
            for optimizer, count in zip(optimizers, (1, 2), strict=True):
                t.forward(model)
                t.loss()
                t.backward(model)

                def measure(number: int = optimizer.number, count: int = count, step: int = step) -> None:
                    if step:
                        t.measure("optimizer.held", 0.0 if cleared == number else float(count), optimizer=number)
                    t.measure("optimizer.left", float(count), optimizer=number)

                t.step(optimizer, within=measure)

    golden = recorder.learn(two)
    assert sentences(golden, "Carried") == [RULE, RULE.replace("AdamW", "SGD")]
    assert not titles(recorder.judge(golden, two), "Carried")
    outcome = recorder.judge(golden, lambda t: two(t, cleared=1))
    (violation,) = violations(outcome, "Carried")
    assert (violation.invariant.subject, violation.count) == ("torch.optim.SGD.state", 3)


# The state of a model

GIVEN = "In training `Reader` is given what it returned the call before in steps 1, 2, 4, 5 and 7."


def reading(seed: int = 0, epochs: int = 4, how: str = "detached") -> None:
    """A recurrent network that reads texts in three windows each, and takes its state from one to the next."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(seed)

    class Reader(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.cell = torch.nn.LSTM(3, 5)

        def forward(self, window: Any, memory: Any) -> Any:
            return self.cell(window, memory)

    net = Reader()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    nothing = (torch.zeros(1, 2, 5), torch.zeros(1, 2, 5))
    memory = nothing
    for _ in range(epochs):
        memory = memory if how == "never reset" else nothing
        for _ in range(3):
            memory = nothing if how == "dropped" else tuple(part.detach() for part in memory)
            memory = tuple(part.clone() for part in memory) if how == "copied" else memory
            optimizer.zero_grad()
            out, memory = net(torch.randn(4, 2, 3), memory)
            out.square().mean().backward()
            optimizer.step()


@pytest.fixture
def reader(tmp_path: Path) -> Callable[[str], CheckOutcome]:
    pytest.importorskip("torch")
    from real_training import recorded

    runs = [recorded(partial(reading, seed), tmp_path / f"golden{seed}") for seed in (0, 1)]
    golden = learn(runs, pipeline="real", seeds=(0, 1))
    assert GIVEN in sentences(golden, "Carried")
    return lambda how: check_run(golden, recorded(partial(reading, 5, how=how), tmp_path / "candidate"), same_spec=True)


@pytest.mark.parametrize(
    ("how", "seen"), [("dropped", "never"), ("never reset", "in steps 1, 2, 3, 4, 5, 6 and 7")], ids=lambda item: item
)
def test_the_state_of_a_model_that_is_not_carried(reader: Callable[[str], CheckOutcome], how: str, seen: str) -> None:
    violation = broken(reader(how), GIVEN)
    assert violation.candidate == seen
    assert violation.title.startswith("In the golden run `Reader` was given what it returned the call before")


@pytest.mark.parametrize("how", ["detached", "copied"])
def test_the_state_of_a_model_that_is_carried(reader: Callable[[str], CheckOutcome], how: str) -> None:
    assert not titles(reader(how), "Carried")


def in_layers(seed: int = 0, whole: bool = False) -> None:
    """A stack of layers that the program calls one after the other, or as a whole."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(seed)

    class Stack(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))

        def forward(self, x: Any) -> Any:
            return self.pass_through(x)

        def pass_through(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return x

    net = Stack()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(6):
        optimizer.zero_grad()
        x = torch.randn(8, 4)
        (net(x) if whole else net.pass_through(x)).square().mean().backward()
        optimizer.step()


def test_what_one_layer_gives_the_next_is_no_state(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from real_training import recorded

    runs = [recorded(partial(in_layers, seed), tmp_path / f"golden{seed}") for seed in (0, 1)]
    golden = learn(runs, pipeline="real", seeds=(0, 1))
    assert not [said for said in sentences(golden, "Carried") if "call before" in said]
    outcome = check_run(golden, recorded(partial(in_layers, whole=True), tmp_path / "whole"), same_spec=True)
    assert not titles(outcome, "Carried")
