"""Drawn: what golden's steps draw, held against a training that is longer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from judgements import sentences, titles, violations

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from drawing import SIZE, STEPS, Loop, Recorded  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.check.part import Part  # noqa: E402
from pytest_traincheck.check.result import Verdict  # noqa: E402

BEGINNING = Part(goes_on=True, other_length=True)
"""The first steps of a training that is longer than golden's."""


@pytest.fixture
def record(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)


@dataclass(frozen=True)
class Curriculum:
    """From a step on examples are larger, and more is drawn for each, in workers or in the training process."""

    seed: int = 0
    change: int = 3
    workers: int = 2
    draws: tuple[int, int] = (2, SIZE)

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        np.random.seed(self.seed)
        model = nn.Linear(SIZE, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        step = 0
        while step < STEPS:
            each = self.draws[step >= self.change]
            loader = torch.utils.data.DataLoader(Noisy(each if self.workers else 0), 16, num_workers=self.workers)
            for rows in loader:
                optimizer.zero_grad()
                noise = 0.0 if self.workers else 0.1 * torch.rand(len(rows), each).sum()
                (model(rows) + noise).square().mean().backward()
                optimizer.step()
                step += 1
                if step in (self.change, STEPS):
                    break


class Noisy(torch.utils.data.Dataset[Any]):
    """Rows for each of which so many numbers are drawn."""

    def __init__(self, each: int) -> None:
        self.each = each

    def __len__(self) -> int:
        return 48

    def __getitem__(self, number: int) -> Any:
        return torch.full((SIZE,), number / 48) + (0.1 * torch.rand(self.each).sum() if self.each else 0.0)


@pytest.mark.parametrize("draws", [(2, SIZE), (0, SIZE)], ids=["more", "any"])
@pytest.mark.parametrize("workers", [0, 2])
def test_what_golden_draws_from_a_later_step_on_may_come_later_in_a_longer_training(
    record: Recorded, draws: tuple[int, int], workers: int
) -> None:
    golden = record.golden(lambda seed: Curriculum(seed, workers=workers, draws=draws))
    late = Curriculum(9, change=100, workers=workers, draws=draws)
    assert violations(record.judged(golden, late), "Drawn"), "in a run as long as golden's it has to come"
    outcome = record.judged(golden, late, BEGINNING)
    assert not violations(outcome, "Drawn")
    untold = [item for item in outcome.verdicts if "may come" in item.reason]
    assert bool(untold) == (bool(workers) and not draws[0]), "what has come already holds"
    assert all(item.verdict is Verdict.NOT_TRIGGERED for item in untold)


def test_what_golden_draws_in_no_step_is_told_in_a_longer_training(record: Recorded) -> None:
    for workers in (0, 2):
        golden = record.golden(lambda seed, workers=workers: Curriculum(seed, workers=workers))  # type: ignore[misc]
        other = Curriculum(9, change=100, workers=workers, draws=(3, 3))
        assert violations(record.judged(golden, other, BEGINNING), "Drawn")


def test_workers_that_draw_nothing_where_golden_always_draws_are_told_at_once(record: Recorded) -> None:
    golden = record.golden(lambda seed: Curriculum(seed))
    assert titles(record.judged(golden, Curriculum(9, draws=(0, 0)), BEGINNING), "Drawn") == [
        "In the golden run workers drew 2 or 6 random numbers from torch's generator for each example; in the "
        "candidate none."
    ]


def test_numbers_of_which_chance_decides_how_many_may_come_later_too(record: Recorded) -> None:
    def rejected(since: int) -> Callable[[Any], Any]:
        steps = iter(range(STEPS))

        def some(batch: Any) -> Any:
            if next(steps) >= since:
                while np.random.rand() < 0.9:
                    pass
            return batch

        return some

    golden = record.golden(lambda seed: Loop(seed, augment=rejected(2)))
    assert "Training steps draw random numbers from numpy's generator." in sentences(golden, "Drawn")
    assert violations(record.judged(golden, Loop(9, augment=rejected(99))), "Drawn")
    assert not violations(record.judged(golden, Loop(9, augment=rejected(99)), BEGINNING), "Drawn")
    always = record.golden(lambda seed: Loop(seed, augment=rejected(0)))
    assert "Training steps draw random numbers from numpy's generator." in sentences(always, "Drawn")
    assert violations(record.judged(always, Loop(9, augment=rejected(99)), BEGINNING), "Drawn")
