"""Updates that a program makes itself are compared as those of an optimizer are: with models and without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from replays import Record  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402

Program = Callable[[], None]


def sgd(seed: int = 0, *, rate: float = 0.1, left_out: str = "", centred: bool = True, steps: int = 6) -> Program:
    """A regression in a few tensors, updated in place."""

    def train() -> None:
        torch.manual_seed(seed)
        x = torch.randn(64, 6) + 3.0
        y = x.sum(1, keepdim=True)
        x = x - x.mean(0) if centred else x
        weights = {"w": torch.randn(6, 8) * 0.2, "b": torch.zeros(8), "v": torch.randn(8, 1) * 0.2}
        for tensor in weights.values():
            tensor.requires_grad_()
        for _ in range(steps):
            rows = torch.randint(0, 64, (32,))
            loss = F.mse_loss(torch.tanh(x[rows] @ weights["w"] + weights["b"]) @ weights["v"], y[rows])
            loss.backward()
            with torch.no_grad():
                for name, tensor in weights.items():
                    if name != left_out:
                        tensor.add_(tensor.grad, alpha=-rate)
                    tensor.grad = None
        with torch.no_grad():
            F.mse_loss(torch.tanh(x @ weights["w"] + weights["b"]) @ weights["v"], y)

    return train


def in_module(seed: int = 0, *, by_hand: bool = False) -> Program:
    """The same in a module, with an optimizer of torch's or without."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = torch.nn.Parameter(torch.randn(6, 8) * 0.2)
            self.offset = torch.nn.Parameter(torch.zeros(8))
            self.down = torch.nn.Parameter(torch.randn(8, 1) * 0.2)

        def forward(self, x: Any) -> Any:
            return torch.tanh(x @ self.up + self.offset) @ self.down

    def train() -> None:
        torch.manual_seed(seed)
        x = torch.randn(64, 6) + 3.0
        y = x.sum(1, keepdim=True)
        x = x - x.mean(0)
        net = Net()
        optimizer = None if by_hand else torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(6):
            rows = torch.randint(0, 64, (32,))
            for parameter in net.parameters():
                parameter.grad = None
            F.mse_loss(net(x[rows]), y[rows]).backward()
            if optimizer is not None:
                optimizer.step()
                continue
            for parameter in net.parameters():
                parameter.data.add_(parameter.grad, alpha=-0.1)
        with torch.no_grad():
            F.mse_loss(net(x), y)

    return train


def resumed(seed: int = 0, *, restores: bool = True, rate: float = 0.1) -> Callable[[Path], Program]:
    """Trains in two sittings, with a file and an average in between."""

    def fresh() -> tuple[Any, Any]:
        w = (torch.randn(6, 2) * 0.2).requires_grad_()
        return w, w.detach().clone()

    def train(x: Any, y: Any, w: Any, average: Any, rate: float) -> None:
        for _ in range(6):
            rows = torch.randint(0, 64, (32,))
            F.mse_loss(x[rows] @ w, y[rows]).backward()
            with torch.no_grad():
                w -= rate * w.grad
                w.grad = None
                average.lerp_(w, 0.1)

    def at(file: Path) -> Program:
        def program() -> None:
            torch.manual_seed(seed)
            x, y = torch.randn(64, 6), torch.randn(64, 2)
            first = fresh()
            train(x, y, *first, 0.1)
            torch.save(first, file)
            second = fresh()
            with torch.no_grad():
                w, average = torch.load(file, weights_only=False)
                second[0].copy_(w)
                second[1].copy_(average if restores else w)
            train(x, y, *second, rate)

        return program

    return at


def golden_of(record: Record, program: Callable[[int], Program]) -> Golden:
    return learn([record(program(seed)) for seed in (0, 1, 2)], pipeline="by hand", seeds=(0, 1, 2))


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    from replays import recorder

    return golden_of(recorder(tmp_path_factory.mktemp("golden")), sgd)


def titles(outcome: CheckOutcome) -> list[str]:
    return [incident.violations[0].title for incident in outcome.incidents]


def test_other_seeds_and_a_longer_name_are_silent(golden: Golden, record: Record) -> None:
    for seed in (0, 3, 4):
        assert not titles(check_run(golden, record(sgd(seed)), same_spec=True))


def test_another_rate(golden: Golden, record: Record) -> None:
    (title,) = titles(check_run(golden, record(sgd(rate=0.03)), same_spec=True))
    assert title.startswith("`ByHand.step` moves ")
    assert "0.3 times as far as in the golden run, as another learning rate does" in title


def test_a_tensor_that_is_not_updated(golden: Golden, record: Record) -> None:
    first, *_ = titles(check_run(golden, record(sgd(left_out="b")), same_spec=True))
    assert "`parameters.b`" in first


def test_inputs_that_are_not_centred(golden: Golden, record: Record) -> None:
    first, *_ = titles(check_run(golden, record(sgd(centred=False)), same_spec=True))
    assert first.startswith("`backward` starts from a different loss")
    assert "the first call with a different input is `torch.matmul`" in first


def test_fewer_steps(golden: Golden, record: Record) -> None:
    first, *_ = titles(check_run(golden, record(sgd(steps=4)), same_spec=True))
    assert first.startswith("The candidate made 4 optimizer steps (`ByHand.step`), the golden run 6")


def test_an_optimizer_that_does_the_same_is_silent(golden: Golden, record: Record) -> None:
    assert not titles(check_run(golden, record(in_module()), same_spec=True))


def test_the_same_by_hand_where_golden_has_an_optimizer_is_silent(record: Record) -> None:
    golden = golden_of(record, in_module)
    assert not titles(check_run(golden, record(in_module(by_hand=True)), same_spec=True))


def test_an_average_that_is_not_restored(record: Record, tmp_path: Path) -> None:
    golden = golden_of(record, lambda seed: resumed(seed)(tmp_path / "file.pt"))
    assert not titles(check_run(golden, record(resumed(3)(tmp_path / "file.pt")), same_spec=True))
    (title,) = titles(check_run(golden, record(resumed(restores=False)(tmp_path / "file.pt")), same_spec=True))
    assert title == (
        "`copy of parameters#1.0` has different values than in the golden run where training goes on, though all "
        "parameters that are trained are the same: not restored, or made again."
    )
    (title,) = titles(check_run(golden, record(resumed(rate=0.05)(tmp_path / "file.pt")), same_spec=True))
    assert title.startswith("`ByHand.step` moves `parameters#1.0` 0.5 times as far as in the golden run")
