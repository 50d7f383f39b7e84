"""A model that is trained in eval mode is compared as one in train mode is: what trains is no matter of a flag."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from replays import Judge  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.check.evaluate import check_run  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402

Training = Callable[[int], None]


class Net(nn.Module):
    """A network with statistics that stay as they are, and a dropout that drops nothing, in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.drop, self.down = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        return self.down(self.drop(torch.tanh(self.norm(self.up(x)))))


class Renamed(Net):
    """The same under another name."""


def training(
    *,
    model: type[Net] = Net,
    rolled: int = 0,
    extra: float = 1e-2,
    beta: float = 0.9,
    evaluates: str = "never",
    teacher: bool = False,
    temperature: float = 1.0,
) -> Training:
    """Fine-tuning in eval mode, with updates by hand."""

    def train(seed: int) -> None:
        torch.manual_seed(seed)
        x, y = torch.randn(64, 6), torch.randint(0, 3, (64,))
        held = torch.randn(16, 6, generator=torch.Generator().manual_seed(9))
        net = model().eval()
        above = copy.deepcopy(net).requires_grad_(False) if teacher else None
        moments = [torch.zeros_like(parameter) for parameter in net.parameters()]
        for _ in range(5):
            rows = torch.randint(0, 64, (16,))
            logits = net(x[rows])
            loss = F.cross_entropy(logits, y[rows].roll(rolled))
            if above is not None:
                loss = loss + F.mse_loss(logits, above(x[rows]) / temperature)
            # A term whose value is nearly nothing, and whose gradient is not.
            loss = loss + extra * (logits - logits.detach()).sum()
            loss.backward()
            with torch.no_grad():
                for moment, parameter in zip(moments, net.parameters(), strict=True):
                    moment.lerp_(parameter.grad, 1 - beta)
                    parameter.add_(moment, alpha=-0.3)
                    parameter.grad = None
            if evaluates == "with gradients":
                net(held).argmax(-1)
            elif evaluates == "without":
                with torch.no_grad():
                    net(held).argmax(-1)

    return train


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return Judge(tmp_path_factory.mktemp("golden")).golden(training())


def first(golden: Golden, judge: Judge, candidate: Training) -> str:
    incidents = check_run(golden, judge.run(candidate), same_spec=True).incidents
    return incidents[0].violations[0].title if incidents else ""


def test_another_loss(golden: Golden, judge: Judge) -> None:
    assert first(golden, judge, training(rolled=1)).startswith("`backward` starts from a different loss")


def test_other_gradients_of_the_same_loss(golden: Golden, judge: Judge) -> None:
    title = first(golden, judge, training(extra=0.0))
    assert title.startswith("`torch.autograd.backward` leaves different gradients of ")


def test_another_update(golden: Golden, judge: Judge) -> None:
    assert " 5 times as far as in the golden run" in first(golden, judge, training(beta=0.5))


@pytest.mark.parametrize(
    "clean",
    [
        training(),
        training(model=Renamed),
        training(evaluates="with gradients"),
        training(evaluates="without"),
    ],
    ids=["the same", "renamed", "evaluated with gradients", "evaluated without"],
)
def test_what_trains_the_same_is_silent(golden: Golden, judge: Judge, clean: Training) -> None:
    assert not first(golden, judge, clean)


def test_another_seed_is_silent(golden: Golden, judge: Judge) -> None:
    assert not check_run(golden, judge.run(training(), seed=5), same_spec=True).incidents


@pytest.mark.parametrize("evaluates", ["with gradients", "without"])
def test_a_bug_beside_a_new_evaluation(golden: Golden, judge: Judge, evaluates: str) -> None:
    """An evaluation comes before the forward pass of the next step, and must not be taken for it."""
    title = first(golden, judge, training(rolled=1, evaluates=evaluates))
    assert title.startswith("`backward` starts from a different loss")


def test_an_evaluation_with_gradients_that_goes(judge: Judge) -> None:
    golden = judge.golden(training(evaluates="with gradients"))
    assert first(golden, judge, training(rolled=1, evaluates="with gradients")).startswith("`backward` starts")
    assert not first(golden, judge, training(evaluates="with gradients"))


def test_a_frozen_teacher_that_is_called_with_gradients(judge: Judge) -> None:
    golden = judge.golden(training(teacher=True))
    assert not first(golden, judge, training(teacher=True))
    assert first(golden, judge, training(teacher=True, temperature=2.0)).startswith("`backward` starts from a")


def test_a_model_that_golden_trains_in_train_mode(judge: Judge) -> None:
    """The mode is still a rule of its own."""

    def in_train_mode(seed: int) -> None:
        class Trained(Net):
            def eval(self) -> Any:
                return self

        training(model=Trained)(seed)

    golden = judge.golden(in_train_mode)
    title = first(golden, judge, training())
    assert "called `Trained` in train mode; the candidate calls it in eval mode" in title
