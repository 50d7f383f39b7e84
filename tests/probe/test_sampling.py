"""A probe that sleeps between the steps that it observes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from probe_runs import Run, Trace, read_run  # noqa: E402

from pytest_traincheck.probe import observe  # noqa: E402
from pytest_traincheck.probe.core import native  # noqa: E402
from pytest_traincheck.probe.sampling import Sampling  # noqa: E402

HEAD = 4


@pytest.fixture
def sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Trace]:
    """Runs a function under a probe that observes the first steps, and then one in `every`."""

    def run(train: Callable[[], Any], every: int | None = 10, share: float = 0.05) -> Trace:
        monkeypatch.setenv("TRAINCHECK_SAMPLING", json.dumps({"every": every, "head": HEAD, "share": share}))
        with observe(tmp_path / "run"):
            train()
        (trace,) = read_run(tmp_path / "run")
        assert trace.meta["probe_errors"] == []
        return trace

    return run


class Training:
    """A loop with what may come between two steps."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.2), torch.nn.Linear(4, 2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def step(self) -> None:
        self.optimizer.zero_grad()
        F.cross_entropy(self.model(torch.randn(5, 3)), torch.randint(2, (5,))).backward()
        self.optimizer.step()

    def evaluate(self) -> None:
        self.model.eval()
        with torch.no_grad():
            for _ in range(3):
                self.model(torch.randn(5, 3))
        self.model.train()


def observed(trace: Trace) -> list[int]:
    """Numbers of the observed steps of the whole training."""
    marks = {item.seq: int(item.value) for item in trace.measured("steps.observed")}
    found: list[int] = []
    number = 0
    for seq in sorted([*marks, *(-call.seq for call in trace.calls if call.type == "optimizer")], key=abs):
        if seq > 0:
            number = marks[seq]
        else:
            found.append(number)
            number += 1
    return found


def test_the_first_steps_and_one_in_so_many(sampled: Callable[..., Trace]) -> None:
    def train() -> None:
        training = Training()
        for _ in range(45):
            training.step()

    trace = sampled(train)
    assert observed(trace) == [0, 1, 2, 3, 10, 20, 30, 40]
    assert trace.meta["sampling"] == {"steps": 45, "every": 10}
    for name in ("torch.optim.SGD.zero_grad", "torch.autograd.backward", "torch.nn.functional.cross_entropy"):
        assert len(trace.called(name)) == 8, name
    (first, *_) = [item.seq for item in trace.measured("steps.observed")]
    sights = [change for change in trace.changes if change.seq > first and change.parent == 0]
    weights = [change for change in sights if (change.kind, change.name) == ("parameter", "0.weight")]
    assert [change.old for change in weights] == [7] * 4, "what became of it meanwhile is a first sight"


def test_functions_are_as_they_are_without_the_probe_while_it_sleeps_long(sampled: Callable[..., Trace]) -> None:
    codes = []

    def train() -> None:
        training = Training()
        for _ in range(74):
            codes.append(torch.nn.Module.__call__.__code__)
            training.step()

    plain = torch.nn.Module.__call__.__code__
    sampled(train, every=70)
    assert [code is plain for code in codes] == [*[False] * 4, *[True] * 66, False, *[True] * 3]


@pytest.mark.skipif(native is None, reason="only the compiled core has hooks that can be hushed at no cost")
def test_functions_keep_the_code_that_tells_of_their_calls_for_a_brief_sleep(sampled: Callable[..., Trace]) -> None:
    codes, called = [], []

    def train() -> None:
        training = Training()
        for _ in range(14):
            codes.append(torch.nn.Module.__call__.__code__)
            called.append(len(training.model(torch.randn(5, 3))))
            training.step()

    plain = torch.nn.Module.__call__.__code__
    trace = sampled(train)
    assert not any(code is plain for code in codes)
    assert torch.nn.Module.__call__.__code__ is plain
    assert called == [5] * 14
    for name in ("torch.optim.SGD.zero_grad", "torch.autograd.backward", "torch.nn.functional.cross_entropy"):
        assert len(trace.called(name)) == 5, name


def test_a_training_is_the_same_to_the_last_bit(sampled: Callable[..., Trace]) -> None:
    ended = []

    def train() -> None:
        training = Training()
        for number in range(40):
            training.step()
            if number % 7 == 6:
                training.evaluate()
        ended.append([value.clone() for value in training.model.state_dict().values()])
        ended[-1].append(torch.get_rng_state())

    sampled(train, every=5)
    train()
    assert all(torch.equal(*pair) for pair in zip(*ended, strict=True))


def test_an_evaluation_is_observed_and_no_part_of_a_step(sampled: Callable[..., Trace]) -> None:
    def train() -> None:
        training = Training()
        for number in range(60):
            training.step()
            if number == 33:
                training.evaluate()
                training.model[0].weight.data.mul_(1.5)
                training.evaluate()

    trace = sampled(train, every=20)
    assert observed(trace) == [0, 1, 2, 3, 20, 40]
    modes = [call.args["mode"] for call in trace.called("torch.nn.Module.train")]
    assert modes == [False, True, False, True]
    evaluated = [call for call in trace.calls if call.entry and not call.ctx["grad"]]
    assert len(evaluated) == 6
    moved = [change for change in trace.changed("parameter", "0.weight") if change.old != 7]
    between = [change for change in moved if evaluated[0].seq < change.seq < evaluated[-1].seq]
    assert len(between) == 1, "what is written between two evaluations is seen"


def test_a_loop_that_says_train_before_every_step_is_no_evaluation(sampled: Callable[..., Trace]) -> None:
    def train() -> None:
        training = Training()
        for _ in range(30):
            training.model.train()
            training.step()

    assert observed(sampled(train)) == [0, 1, 2, 3, 10, 20]


def test_a_part_that_was_left_in_another_mode_wakes_the_probe(sampled: Callable[..., Trace]) -> None:
    """`train` of the whole model changes nothing of it, and is not told; what it calls changes the part, and is told as
    what comes behind it.
    """

    def train() -> None:
        training = Training()
        for number in range(30):
            if number == 25:
                training.model[1].training = False
            training.model.train()
            training.step()

    trace = sampled(train)
    assert [call.path for call in trace.called("torch.nn.Module.train")] == [*6 * [""], "1", "2"]


def test_what_comes_all_the_time_is_not_rare(sampled: Callable[..., Trace]) -> None:
    def train() -> None:
        training = Training()
        for _ in range(200):
            training.evaluate()
            training.step()

    trace = sampled(train, every=50)
    assert observed(trace) == [0, 1, 2, 3, 50, 100, 150]
    assert len(trace.called("torch.nn.Module.train")) < 40


def test_a_training_that_begins_again_is_observed_from_its_first_step(sampled: Callable[..., Trace]) -> None:
    def train() -> None:
        training = Training()
        for _ in range(25):
            training.step()
        again = Training()
        again.model.load_state_dict(training.model.state_dict())
        again.optimizer.load_state_dict(training.optimizer.state_dict())
        for _ in range(30):
            again.step()

    trace = sampled(train)
    assert observed(trace) == [0, 1, 2, 3, 10, 20, *range(25, 33), 40, 50]
    assert len(trace.called("torch.nn.Module.load_state_dict")) == 1


def test_a_critic_and_a_generator(sampled: Callable[..., Trace]) -> None:
    """An iteration ends with the step of the generator, and holds all those of the critic."""

    def train() -> None:
        critic, generator = Training(), Training()
        for _ in range(25):
            for _ in range(3):
                critic.step()
            generator.step()

    trace = sampled(train)
    assert [item.value for item in trace.measured("steps.observed")] == [10.0, 20.0]
    steps = [call for call in trace.calls if call.type == "optimizer"]
    assert len(steps) == 4 * (HEAD + 2)


def test_another_optimizer_takes_over(sampled: Callable[..., Trace]) -> None:
    def train() -> None:
        first, second = Training(), Training()
        for training in (first, second):
            for _ in range(150):
                training.step()

    trace = sampled(train)
    assert {call.opt for call in trace.calls if call.type == "optimizer" and call.seq > trace.calls[-40].seq} == {2}


def test_steps_that_raise_or_call_the_steps_of_their_base_class_are_counted_once(sampled: Callable[..., Trace]) -> None:
    class Careful(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            if self.refuses:
                raise ValueError("not now")
            return super().step(closure)

    def train() -> None:
        training = Training()
        torch.optim.SGD(training.model.parameters(), lr=0.1)  # so that its step has hooks of its own
        optimizer = training.optimizer = Careful(training.model.parameters(), lr=0.1)
        for number in range(25):
            optimizer.refuses = number in (6, 7, 8)
            if optimizer.refuses:
                with pytest.raises(ValueError, match="not now"):
                    training.step()
            else:
                training.step()

    trace = sampled(train)
    assert trace.meta["sampling"]["steps"] == 22
    assert observed(trace) == [0, 1, 2, 3, 10, 20]


def test_one_of_two_optimizers_takes_over(sampled: Callable[..., Trace]) -> None:
    """How many steps of the others are usual is known from iterations, not from what lies between two observed ones."""

    def train() -> None:
        critic, generator = Training(), Training()
        for number in range(300):
            for _ in range(3 if number < 45 else 1):
                critic.step()
            if number < 45:
                generator.step()

    trace = sampled(train)
    steps = [call.opt for call in trace.calls if call.type == "optimizer"]
    assert steps[-HEAD:] == [steps[0]] * HEAD, "the critic's, which are observed again"


@pytest.mark.parametrize("same", [False, True], ids=["equal", "the same object"])
def test_a_schedule_that_comes_to_its_next_phase(sampled: Callable[..., Trace], same: bool) -> None:
    rates = [0.01 * number for number in range(31)]

    def train() -> None:
        training = Training()
        for number in range(60):
            training.step()
            training.optimizer.param_groups[0]["lr"] = rates[min(number, 30)] if same else 0.01 * min(number, 30)

    assert 33 in observed(sampled(train, every=20))


def test_so_few_steps_that_it_takes_no_more_than_its_share(sampled: Callable[..., Trace]) -> None:
    def train() -> None:
        training = Training()
        for _ in range(400):
            training.step()
            time.sleep(0.0005)

    trace = sampled(train, every=None, share=0.05)
    every = trace.meta["sampling"]["every"]
    assert every >= 8
    assert every & (every - 1) == 0, "ranks that come to other numbers have steps in common"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_that_is_forked_meanwhile_is_observed(run: Run) -> None:
    outcome = run(
        """
        import os
        os.environ["TRAINCHECK_SAMPLING"] = '{"every": 1000, "head": 2}'
        import torch
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        def step():
            optimizer.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        for _ in range(5):
            step()
        child = os.fork()
        for _ in range(3):
            step()
        if child:
            os.waitpid(child, 0)
        """
    )
    parent, child = outcome.traces
    assert [len([call for call in trace.calls if call.type == "optimizer"]) for trace in (parent, child)] == [2, 3]


@pytest.mark.skipif(native is None, reason="without the compiled core Python does everything")
def test_steps_are_counted_and_the_probe_is_woken_without_python(
    sampled: Callable[..., Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def noted(name: str) -> None:
        method = getattr(Sampling, name)

        def instead(self: Sampling, *args: Any) -> Any:
            asked.append(name)
            return method(self, *args)

        monkeypatch.setattr(Sampling, name, instead)

    def train() -> None:
        training = Training()
        schedule = torch.optim.lr_scheduler.ExponentialLR(training.optimizer, 0.99)
        for number in range(100):
            if number == 50:
                for name in ("ended", "ended_unseen", "_sleep", "_wake", "look_on"):
                    noted(name)
            training.step()
            schedule.step()

    assert [step for step in observed(sampled(train)) if step >= 50] == [*range(50, 100, 10)]
    assert asked == []
