"""What the parts of a batch are for: said where the run shows it, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from replays import Record  # noqa: E402

from pytest_traincheck.replay import record as recorded  # noqa: E402
from pytest_traincheck.replay.computed import Computed  # noqa: E402
from pytest_traincheck.replay.roles import roles_of_batch  # noqa: E402

Step = Callable[[Any, Any], Any]


class Wide(torch.nn.Module):
    """A layer that may be given two inputs, and has a class for each of six features."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(6, 6)

    def forward(self, x: Any, other: Any = None) -> Any:
        return self.layer(x if other is None else x + other)


def loop(step: Step) -> Callable[[], None]:
    """Two steps over batches of rows, their classes and their weights; `step` gives the loss of one."""

    def run() -> None:
        torch.manual_seed(0)
        data = torch.utils.data.TensorDataset(torch.randn(16, 6), torch.randint(6, (16,)), torch.rand(16, 6))
        net = Wide()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for batch in torch.utils.data.DataLoader(data, batch_size=8):
            optimizer.zero_grad()
            step(net, batch).backward()
            optimizer.step()

    return run


def roles(record: Record, step: Step) -> dict[str, str]:
    """Those of the first batch."""
    found = recorded(record(loop(step)))
    assert found is not None
    side = Computed(found.recording, 0)
    batch = min((call for call in side.calls.values() if call.kind == "data"), key=lambda call: call.begin)
    return dict(roles_of_batch(side, batch))


def test_inputs_go_into_the_model_and_targets_into_the_loss(record: Record) -> None:
    found = roles(record, lambda net, batch: F.cross_entropy(net(batch[0]), batch[1]))
    assert found == {"0": "inputs", "1": "targets"}


def test_the_order_in_the_batch_says_nothing(record: Record) -> None:
    assert roles(record, lambda net, batch: F.mse_loss(net(batch[2]), batch[0])) == {"0": "targets", "2": "inputs"}


@pytest.mark.parametrize(
    ("step", "known"),
    [
        (lambda net, batch: F.cross_entropy(net(2 * batch[0]), batch[1]), {"1": "targets"}),
        (lambda net, batch: net(batch[0]).square().mean(), {"0": "inputs"}),
        (lambda net, batch: F.mse_loss(net(batch[0]), batch[0]), {}),
        (
            lambda net, batch: F.cross_entropy(net(batch[0], batch[2]), batch[1]),
            {"0": "inputs", "1": "targets", "2": "inputs"},
        ),
        (lambda net, batch: net(batch[0] + batch[2]).square().mean(), {}),
    ],
    ids=["changed on the way", "no loss function", "the targets are the inputs", "two inputs", "all are changed"],
)
def test_what_is_not_shown_is_not_said(record: Record, step: Step, known: dict[str, str]) -> None:
    assert roles(record, step) == known
