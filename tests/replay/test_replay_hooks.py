"""Hooks of gradients under autocast: what one does to a small gradient is not lost among the rounding of large ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from replays import Judge, replayed  # noqa: E402
from torch import nn  # noqa: E402

Training = Callable[[int], None]


class Rounded(torch.autograd.Function):
    """Nothing on the way forward; on the way back another kernel, which leaves the digits of bfloat16."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:  # noqa: ARG004 - torch calls it so
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # noqa: ARG004 - torch calls it so
        return grad.bfloat16().float()


class Net(nn.Module):
    """An embedding whose gradient is small beside that of the last bias."""

    def __init__(self, rounded: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(7, 6)
        self.up, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
        self.rounded = rounded

    def forward(self, words: Any) -> Any:
        found = self.words(words)
        found = Rounded.apply(found) if self.rounded else found
        return self.head(torch.tanh(self.up(found * 0.01)))


def training(*, returns: bool = True, rounded: bool = False, summed: bool = False) -> Training:
    def train(seed: int) -> None:
        torch.manual_seed(seed)
        net = Net(rounded)

        def keep_first(gradient: Any) -> Any:
            kept = gradient.clone()
            kept[0] = 0
            return kept if returns else None

        def in_another_order(gradient: Any) -> Any:
            return gradient * (1 + 1e-6) if summed else gradient

        net.words.weight.register_hook(in_another_order)
        net.words.weight.register_hook(keep_first)
        optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-2)
        for _ in range(3):
            words = torch.randint(0, 7, (32,))
            words[:8] = 0
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = nn.functional.cross_entropy(net(words).float(), words % 3) * 100
            loss.backward()
            optimizer.step()

    return train


def test_a_hook_that_returns_nothing_is_found(judge: Judge) -> None:
    golden = judge.golden(training())
    found = replayed(golden, judge.run(training(returns=False)))
    assert found[0].title.startswith("`torch.autograd.backward` leaves different gradients of `Net.words.weight` ")
    assert found[0].step == 0


@pytest.mark.parametrize("change", [{}, {"rounded": True}, {"summed": True}])
def test_rounding_of_what_goes_backward_is_no_incident(judge: Judge, change: dict[str, bool]) -> None:
    golden = judge.golden(training())
    assert not replayed(golden, judge.run(training(**change)))
