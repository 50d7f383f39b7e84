"""Training through `torch.func`: models are called inside `vmap` and `grad`, the loss and its gradients are outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from replays import Judge, claimed, replayed  # noqa: E402
from torch import nn  # noqa: E402
from torch.func import functional_call, grad, vmap  # noqa: E402

from pytest_traincheck.check.coverage import warnings_of  # noqa: E402
from pytest_traincheck.check.evaluate import check_run  # noqa: E402

Training = Callable[[int], None]


def maml(
    *,
    first_order: bool = False,
    query: bool = True,
    advances: bool = True,
    doubled: bool = False,
    logged: bool = False,
    mapped: int = 0,
    drawn: bool = False,
) -> Training:
    """Meta-learning of a regression: two inner steps for each of four tasks."""

    def train(seed: int) -> None:
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        parameters = dict(net.named_parameters())
        outer = torch.optim.SGD(net.parameters(), lr=0.1)
        if drawn:
            torch.randn(7)

        def loss_of(values: dict[str, Any], x: Any, y: Any) -> Any:
            return nn.functional.mse_loss(functional_call(net, values, (x,)), y)

        def task(values: dict[str, Any], support: Any, further: Any) -> Any:
            fast = values
            for _ in range(2):
                slopes = grad(loss_of)(fast if advances else values, *support)
                if first_order:
                    slopes = {name: slope.detach() for name, slope in slopes.items()}
                fast = {name: value - 0.1 * slopes[name] for name, value in fast.items()}
            return loss_of(fast, *(further if query else support))

        for _ in range(4):
            x = torch.randn(4, 10, 3)
            y = torch.sin(x.sum(-1, keepdim=True))
            tasks = [(x[:, :5], y[:, :5]), (x[:, 5:], y[:, 5:])]
            if mapped:
                tasks = [tuple(part.movedim(0, mapped) for part in pair) for pair in tasks]
            loss = vmap(task, in_dims=(None, mapped, mapped))(parameters, *tasks).mean() * (2 if doubled else 1)
            if logged:
                with torch.no_grad():
                    vmap(loss_of, in_dims=(None, mapped, mapped))(parameters, *tasks[1])
            outer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            outer.step()

    return train


@pytest.mark.parametrize(
    ("change", "title"),
    [
        ({"first_order": True}, "`torch.autograd.backward` leaves different gradients"),
        ({"query": False}, "the first call with a different input is `Sequential` (`input`)"),
        ({"advances": False}, "the first call with a different input is `torch.nn.functional.linear` (`weight`)"),
        ({"doubled": True}, "`backward` starts from a different loss"),
    ],
)
def test_what_comes_of_transforms_is_compared(judge: Judge, change: dict[str, bool], title: str) -> None:
    golden = judge.golden(maml())
    found = replayed(golden, judge.run(maml(**change)))
    assert title in found[0].title
    assert found[0].step == 0


@pytest.mark.parametrize("change", [{}, {"logged": True}, {"mapped": 1}])
def test_what_computes_the_same_breaks_nothing(judge: Judge, change: dict[str, Any]) -> None:
    golden = judge.golden(maml())
    outcome = check_run(golden, judge.run(maml(**change)), same_spec=True)
    assert not outcome.incidents
    assert claimed(outcome) >= 5
    assert outcome.coverage is not None
    assert outcome.coverage.share == 1.0


def test_another_seed_owes_nothing(judge: Judge) -> None:
    golden = judge.golden(maml())
    assert not replayed(golden, judge.run(maml(first_order=True), seed=1))


def test_a_run_that_goes_another_way_is_no_plain_pass(judge: Judge) -> None:
    """What is lost is counted among the comparisons, and said."""
    golden = judge.golden(maml())
    outcome = check_run(golden, judge.run(maml(drawn=True)), same_spec=True)
    assert outcome.coverage is not None
    assert outcome.coverage.share < outcome.coverage.floor
    assert warnings_of(outcome.coverage)
