"""Random numbers that are drawn on a GPU: what is made of other ones owes nothing, as with those of the CPU.

Dropout is drawn from the counter of a device here, so torch's own generator is the same in all runs of a seed.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from counted_device import Counter, devices  # noqa: E402
from replays import Judge, replayed  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.check.evaluate import check_run  # noqa: E402
from pytest_traincheck.check.result import Coverage  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.trace import Run  # noqa: E402

ROWS, SIZE, LATE = 16, 6, 9
OWN = torch.Generator().manual_seed(5)
DATA = torch.randn(ROWS, SIZE, generator=OWN)
TARGETS = torch.randn(ROWS, SIZE, generator=OWN)


@dataclass(frozen=True)
class Training:
    """A loop whose model drops out on a device.

    `beside` numbers are drawn that nobody needs, before the first step or in each `late` one; `seeds` the device
    otherwise. The loss is multiplied by `factor`, from the first step on or in the `late` ones.
    """

    drop: float = 0.5
    beside: int = 0
    seeds: int = 0
    factor: float = 1.0
    late: bool = False
    scale: float = 1.0
    steps: int = 4
    on_cpu: bool = False
    spare: int = 0
    """Devices that nobody draws from and nobody has seeded: they begin with this."""

    def __call__(self, seed: int) -> None:
        torch.manual_seed(seed)
        device = Counter(seed + self.seeds)
        others = [Counter(self.spare)] if self.spare else []
        with nullcontext() if self.on_cpu else devices(device, *others):
            model = nn.Sequential(nn.Linear(SIZE, 8), nn.Dropout(self.drop), Scaled(self.scale), nn.Linear(8, SIZE))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(self.steps):
                now = (step >= LATE) if self.late else True
                for _ in range(self.beside if now and (self.late or not step) else 0):
                    nn.functional.dropout(torch.ones(1))
                loss = ((model(DATA) - TARGETS) ** 2).mean() * (self.factor if now else 1.0)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()


class Scaled(nn.Module):
    """Multiplies by a number."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: Any) -> Any:
        return x * self.scale


def covered(golden: Golden, run: Run) -> Coverage:
    found = check_run(golden, run, same_spec=True).coverage
    assert found is not None
    return found


@pytest.fixture
def golden(judge: Judge) -> Golden:
    return judge.golden(Training())


def test_the_same_numbers_are_compared(golden: Golden, judge: Judge) -> None:
    again = judge.run(Training())
    assert not replayed(golden, again)
    assert covered(golden, again).share == 1


@pytest.mark.parametrize(
    "other", [Training(beside=1), Training(seeds=100)], ids=["stands elsewhere", "seeded otherwise"]
)
def test_dropout_of_a_generator_that_is_in_another_state_owes_nothing(
    other: Training, golden: Golden, judge: Judge
) -> None:
    """Parameters, inputs and torch's generator are golden's, and every result is another one."""
    run = judge.run(other)
    assert not replayed(golden, run)
    found = covered(golden, run)
    assert found.share < 1
    assert found.drawn_otherwise


def test_why_the_runs_parted_is_said(golden: Golden, judge: Judge) -> None:
    parted = covered(golden, judge.run(Training(seeds=100))).parted
    assert parted is not None
    assert parted.what == "random numbers of the GPU: the generator is seeded differently"
    parted = covered(golden, judge.run(Training(beside=1))).parted
    assert parted is not None
    assert parted.what == "random numbers: `Sequential` draws different ones"


@pytest.mark.parametrize("change", [{"factor": 2.0}, {"scale": 2.0}])
def test_a_mistake_behind_the_same_numbers_is_found(change: dict[str, float], golden: Golden, judge: Judge) -> None:
    assert replayed(golden, judge.run(Training(**change)))  # type: ignore[arg-type]


def test_a_device_that_nobody_draws_from_does_not_matter(judge: Judge) -> None:
    golden = judge.golden(Training(spare=1))
    other = Training(spare=2)
    assert covered(golden, judge.run(other)).share == 1
    assert replayed(golden, judge.run(Training(spare=2, factor=2.0)))


def test_a_model_that_draws_nothing_is_compared_wherever_the_generator_stands(judge: Judge) -> None:
    golden = judge.golden(Training(drop=0.0))
    assert covered(golden, judge.run(Training(drop=0.0, beside=1))).share == 1
    assert replayed(golden, judge.run(Training(drop=0.0, beside=1, factor=2.0)))


def test_later_steps(judge: Judge) -> None:
    """Of those only the state before each step is known."""
    golden = judge.golden(Training(steps=14))
    assert not replayed(golden, judge.run(Training(steps=14)))
    assert replayed(golden, judge.run(Training(steps=14, late=True, factor=2.0)))
    assert not replayed(golden, judge.run(Training(steps=14, late=True, beside=1)))


def test_a_run_on_a_cpu_owes_nothing_to_one_on_a_gpu(golden: Golden, judge: Judge) -> None:
    """There torch's generator draws, from which golden draws nothing after the model was made."""
    run = judge.run(Training(on_cpu=True))
    assert not replayed(golden, run)
    assert covered(golden, run).drawn_otherwise
    assert not replayed(judge.golden(Training(on_cpu=True)), judge.run(Training()))
