"""What the core remembers by an address, or uses again, is never taken for what has died or is still held."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from real_training import recorded  # noqa: E402

from pytest_traincheck.probe.variable import Var  # noqa: E402

STEPS = 24


def test_a_module_at_the_address_of_one_that_died_is_called_by_its_own_name(tmp_path: Path) -> None:
    made: list[tuple[int, str]] = []

    def train() -> None:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in range(STEPS):
            optimizer.zero_grad()
            # A loss of another class in each step, twice: the second call is like one that has been before.
            criterion = (torch.nn.MSELoss, torch.nn.L1Loss)[step % 2]()
            made.append((id(criterion), type(criterion).__name__))
            inputs, targets = torch.randn(8, 4), torch.randn(8, 3)
            (criterion(model(inputs), targets) + criterion(model(inputs), targets)).backward()
            del criterion
            optimizer.step()

    (process,) = recorded(train, tmp_path).processes
    names = [process.api[int(row)].rpartition(".")[2] for row in process.rows_of_type("module")]
    assert [name for name in names if name.endswith("Loss")] == [name for _, name in made for _ in range(2)]
    last = made[STEPS // 2 :]
    if len({address for address, _ in last}) == len(set(last)):
        pytest.skip("no address came again, so this shows nothing")


def test_a_sample_that_somebody_holds_is_not_written_into(tmp_path: Path) -> None:
    held: list[tuple[bytes, bytearray]] = []

    def train() -> None:
        torch.manual_seed(0)
        model: Any = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 64))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(STEPS):
            optimizer.zero_grad()
            model(torch.randn(8, 64)).square().mean().backward()
            optimizer.step()
            if step in (STEPS - 8, STEPS - 5):
                variables = [each for each in gc.get_objects() if type(each) is Var and len(each.sample) == 1024]
                held.extend((variable.sample, bytearray(variable.sample)) for variable in variables)

    recorded(train, tmp_path)
    assert len(held) >= 4
    assert all(sample == copy for sample, copy in held)
