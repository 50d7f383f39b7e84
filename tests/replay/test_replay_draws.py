"""Other random numbers than golden's: what is made of them owes nothing, and everything else is compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from replays import Judge, replayed  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from pytest_traincheck.check.evaluate import check_run  # noqa: E402
from pytest_traincheck.check.result import Coverage  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.trace import Run  # noqa: E402

ROWS, SIZE, STEPS = 32, 6, 4
OWN = torch.Generator().manual_seed(5)
DATA = torch.randn(ROWS, SIZE, generator=OWN)
TARGETS = torch.randn(ROWS, SIZE, generator=OWN)


class Fourier(nn.Module):
    """Features by a projection that is drawn and is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.projection = torch.randn(SIZE, SIZE)

    def forward(self, x: Any) -> Any:
        return torch.sin(x @ self.projection)


@dataclass(frozen=True)
class Training:
    """A loop over batches that come in an order of their own.

    `noise` is drawn in each step and `fixed` once; `beside` are numbers that nobody needs, drawn once the model is
    there, `again` in each step.
    """

    noise: bool = False
    fixed: bool = False
    features: bool = False
    beside: int = 0
    again: int = 0
    reseeds: bool = False
    twice: bool = False
    """Sets the same seed once more, when the model is there."""
    whole: bool = False
    factor: float = 1.0

    def __call__(self, seed: int) -> None:
        torch.manual_seed(seed)
        model: nn.Module = nn.Sequential(nn.Linear(SIZE, 8), nn.ReLU(), nn.Linear(8, SIZE))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if self.twice:
            torch.manual_seed(seed)
        torch.rand(self.beside)
        first = Fourier() if self.features else nn.Identity()
        kept = torch.randn(SIZE) if self.fixed else torch.zeros(SIZE)
        for step, (batch, targets) in zip(range(STEPS), self._batches(seed), strict=False):
            torch.rand(self.again)
            if self.reseeds:
                torch.manual_seed(1000 * seed + step)
            noise = torch.randn_like(batch) if self.noise else 0.0
            loss = ((model(first(batch)) - targets - noise - kept) ** 2).mean() * self.factor
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def _batches(self, seed: int) -> Any:
        order = torch.Generator().manual_seed(seed)
        loader = DataLoader(
            TensorDataset(DATA, TARGETS), ROWS if self.whole else 8, shuffle=not self.whole, generator=order
        )
        while True:
            yield from loader


def covered(golden: Golden, run: Run) -> Coverage:
    found = check_run(golden, run, same_spec=True).coverage
    assert found is not None
    return found


@pytest.mark.parametrize("kind", ["noise", "fixed", "features"])
def test_what_is_made_of_other_numbers_owes_nothing(kind: str, judge: Judge) -> None:
    """One number more once the model is there: noise that no call is given, or a module holds, is another then."""
    golden = judge.golden(Training(**{kind: True}))
    assert not replayed(golden, judge.run(Training(**{kind: True}, beside=1)))


def test_a_draw_of_golden_s_size_is_not_taken_for_golden_s(judge: Judge) -> None:
    golden = judge.golden(Training(fixed=True))
    assert not replayed(golden, judge.run(Training(fixed=True, beside=SIZE)))


def test_what_draws_nothing_is_compared_behind_other_draws(judge: Judge) -> None:
    golden = judge.golden(Training())
    more = judge.run(Training(beside=1))
    assert covered(golden, more).share == 1
    assert not replayed(golden, more)
    (found,) = replayed(golden, judge.run(Training(beside=1, factor=2.0)))
    assert found.title.startswith("`backward` starts from a different loss")


def test_a_seed_that_is_set_twice_is_no_other_draw(judge: Judge) -> None:
    """As a trainer does that seeds when it is made and when it begins: its states come again."""
    golden = judge.golden(Training(twice=True))
    (found,) = replayed(golden, judge.run(Training(twice=True, factor=2.0)))
    assert found.title.startswith("`backward` starts from a different loss")
    assert not replayed(golden, judge.run(Training(twice=True)))


def test_the_seeds_of_workers_are_no_draws(judge: Judge) -> None:
    """Every pass over a loader draws one."""
    golden = judge.golden(Training(whole=True))
    assert covered(golden, judge.run(Training(whole=True, beside=1))).share == 1
    assert replayed(golden, judge.run(Training(whole=True, beside=1, factor=2.0)))


def test_generators_that_are_seeded_anew_in_each_step(judge: Judge) -> None:
    golden = judge.golden(Training(noise=True, reseeds=True))
    other = Training(noise=True, reseeds=True, beside=3, again=2)
    assert covered(golden, judge.run(other)).share == 1
    assert not replayed(golden, judge.run(other))
    assert replayed(golden, judge.run(Training(noise=True, reseeds=True, beside=3, again=2, factor=2.0)))


def test_a_step_that_draws_more_agrees_all_the_same(judge: Judge) -> None:
    """What nobody uses changes nothing: it counts as compared, and the walk goes on."""
    golden = judge.golden(Training())
    found = covered(golden, judge.run(Training(again=3)))
    assert found.share == 1
