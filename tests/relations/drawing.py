"""Loops that draw random numbers, and what keeps their traces."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from real_training import recorded
from torch import nn
from torch.nn import functional as F

from pytest_traincheck.check.evaluate import CheckOutcome, check_run
from pytest_traincheck.check.part import WHOLE, Part
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn

SEEDS = (0, 1, 2)
ROWS, SIZE, STEPS = 16, 6, 5


class Regressor(nn.Module):
    """A recurrent network: its dropout is drawn where no Python function is called."""

    def __init__(self, drop: float = 0.3) -> None:
        super().__init__()
        self.rnn = nn.GRU(SIZE, 8, num_layers=2, batch_first=True, dropout=drop)
        self.head = nn.Linear(8, 1)

    def forward(self, sequences: Any) -> Any:
        return self.head(self.rnn(sequences)[0][:, -1])


def noisy(batch: Any) -> Any:
    return batch + 0.1 * torch.randn_like(batch)


@dataclass(frozen=True)
class Loop:
    """A loop without a loader, which draws its batches and disturbs them."""

    seed: int = 0
    augment: Callable[[Any], Any] = noisy
    drop: float = 0.3
    ahead: bool = False
    """Whether a batch is made before the step that comes before its own."""
    unused: int = 0
    """Numbers that are drawn before there is a model."""

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        random.seed(self.seed)
        np.random.seed(self.seed)
        data = torch.randn(64, 3, SIZE)
        torch.rand(self.unused)
        model = Regressor(self.drop)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        model.train()
        for batch in self._ahead(data) if self.ahead else self._batches(data):
            optimizer.zero_grad()
            F.mse_loss(model(batch), batch.mean((1, 2))[:, None]).backward()
            optimizer.step()

    def _batches(self, data: Any) -> Any:
        for _ in range(STEPS):
            yield self.augment(data[torch.randint(len(data), (ROWS,))])

    def _ahead(self, data: Any) -> Any:
        batches = self._batches(data)
        kept = next(batches)
        for batch in batches:
            yield kept
            kept = batch
        yield kept


class Recorded:
    """Runs loops and keeps what they leave."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0

    def run(self, training: Callable[[], None]) -> Any:
        self._number += 1
        return recorded(training, self._folder / str(self._number))

    def golden(self, make: Callable[[int], Callable[[], None]], seeds: tuple[int, ...] = SEEDS) -> Golden:
        return learn([self.run(make(seed)) for seed in seeds], pipeline="loop", seeds=seeds)

    def judged(self, golden: Golden, training: Callable[[], None], part: Part = WHOLE) -> CheckOutcome:
        return check_run(golden, self.run(training), same_spec=True, part=part)
