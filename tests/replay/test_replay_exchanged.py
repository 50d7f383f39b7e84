"""Gradients of several backward passes, which ranks exchange after each of them or after the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from replays import Judge, replayed  # noqa: E402
from torch import nn  # noqa: E402

Training = Callable[[int], None]
PASSES = 2


def training(*exchanged_in: int) -> Training:
    """Two passes a step; what another rank would add is added within the passes that are given, as far as it is there
    by then. A pass after the last of them keeps its gradient to itself.
    """

    def train(seed: int) -> None:
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        others = torch.Generator().manual_seed(seed + 1)
        waiting: dict[Any, Any] = {parameter: torch.zeros_like(parameter) for parameter in net.parameters()}
        now = 0

        def exchange(parameter: Any) -> None:
            waiting[parameter] += torch.randn(parameter.shape, generator=others)
            if now in exchanged_in:
                parameter.grad.add_(waiting[parameter])
                waiting[parameter].zero_()

        for parameter in net.parameters():
            parameter.register_post_accumulate_grad_hook(exchange)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        for _ in range(3):
            optimizer.zero_grad()
            for now in range(PASSES):  # noqa: B007 - hooks read it
                inputs, targets = torch.randn(8, 6), torch.randint(0, 3, (8,))
                (nn.functional.cross_entropy(net(inputs), targets) / PASSES).backward()
            optimizer.step()

    return train


@pytest.mark.parametrize("golden", [(0, 1), (1,)])
@pytest.mark.parametrize("candidate", [(0, 1), (1,)])
def test_after_which_pass_ranks_exchange_is_no_rule(
    judge: Judge, golden: tuple[int, ...], candidate: tuple[int, ...]
) -> None:
    assert not replayed(judge.golden(training(*golden)), judge.run(training(*candidate)))


@pytest.mark.parametrize("golden", [(0, 1), (1,)])
def test_an_exchange_that_leaves_the_last_pass_out_is_found(judge: Judge, golden: tuple[int, ...]) -> None:
    found = replayed(judge.golden(training(*golden)), judge.run(training(0)))
    assert found[0].title.startswith("`torch.autograd.backward` leaves different gradients of ")
    assert found[0].step == 0


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A process group of one rank."""
    dist = pytest.importorskip("torch.distributed")
    if not dist.is_available():
        pytest.skip("torch was built without distributed")
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.FileStore(str(tmp_path / "store"), 1))
    try:
        yield
    finally:
        dist.destroy_process_group()


def joined(batches: int, others: float) -> Training:
    """Two epochs of so many batches, after each of which ranks wait for each other; what others have a part in."""

    def train(seed: int) -> None:
        from torch.distributed.algorithms.join import Join

        torch.manual_seed(seed)
        net = torch.nn.parallel.DistributedDataParallel(nn.Linear(6, 3))
        for parameter in net.parameters():
            parameter.register_hook(lambda gradient: gradient + others)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        for _ in range(2):
            with Join([net]):
                for _ in range(batches):
                    optimizer.zero_grad()
                    nn.functional.cross_entropy(net(torch.randn(8, 6)), torch.randint(0, 3, (8,))).backward()
                    optimizer.step()

    return train


@pytest.mark.usefixtures("alone")
def test_where_data_are_shared_out_otherwise_gradients_owe_nothing(judge: Judge) -> None:
    """Ranks that have other numbers of batches have others from the first one on."""
    golden = judge.golden(joined(3, others=0.1))
    assert not replayed(golden, judge.run(joined(3, others=0.1)))
    assert not replayed(golden, judge.run(joined(2, others=0.3)))
    found = replayed(golden, judge.run(joined(3, others=0.3)))
    assert found[0].title.startswith("`torch.autograd.backward` leaves different gradients of ")
