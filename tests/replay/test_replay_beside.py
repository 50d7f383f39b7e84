"""A batch that is written by hand and in part not golden's: what stands beside that part says which examples it is."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from replays import Record, replayed  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.infer import learn  # noqa: E402


class Neighbours(nn.Module):
    """Adds to each place what another place holds."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(3, 1)

    def forward(self, values: Any, index: Any, grid: Any) -> Any:
        return self.out(values + values[index[:, :24].reshape(-1)] + grid)


def training(seed: int = 0, shift: int = 0, others: int = 0) -> Any:
    """Indices are the largest input; `shift` gets them wrong, `others` takes other examples with the same draws."""

    def run() -> None:
        torch.manual_seed(seed)
        net = Neighbours()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        data = torch.Generator().manual_seed(100 + seed + others)
        grid = torch.linspace(0, 1, 72).view(24, 3)
        for _ in range(4):
            values = torch.randn(24, 3, generator=data)
            index = (torch.randint(24, (1, 96), generator=data) + shift) % 24
            optimizer.zero_grad()
            (net(values, index, grid) - 1).square().mean().backward()
            optimizer.step()

    return run


def test_an_index_that_is_wrong_beside_the_very_numbers_of_golden(record: Record) -> None:
    golden = learn([record(training(seed)) for seed in (0, 1)], pipeline="replayed", seeds=(0, 1))
    (found, *_) = replayed(golden, record(training(shift=1)))
    assert found.title.startswith("`backward` starts from a different loss")
    assert found.title.endswith("the first call with a different input is `Neighbours` (`index`).")


def test_what_is_the_same_for_all_examples_says_nothing(record: Record) -> None:
    """The grid is golden's whatever the examples are."""
    golden = learn([record(training(seed)) for seed in (0, 1)], pipeline="replayed", seeds=(0, 1))
    assert not replayed(golden, record(training()))
    assert not replayed(golden, record(training(others=7)))
