"""A small language model with one switch for everything that may be computed otherwise, and its replay."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from pytest_traincheck.check.evaluate import CheckOutcome, check_run
from pytest_traincheck.check.result import Verdict, Violation
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn
from pytest_traincheck.probe import observe
from pytest_traincheck.trace import Run, load_run

WORDS, LENGTH, BATCH, DIM, PAD = 23, 12, 4, 16, 0

Record = Callable[[Callable[[], Any]], Run]


class Attention(nn.Module):
    """Causal attention in one head."""

    def __init__(self, scale: float = 1.0, mask: str = "causal", fused: bool = False) -> None:
        super().__init__()
        self.project = nn.Linear(DIM, 3 * DIM)
        self.drop = nn.Dropout(0.1)
        self.scale, self.mask, self.fused = scale, mask, fused

    def forward(self, x: Any) -> Any:
        q, k, v = self.project(x).chunk(3, dim=-1)
        if self.fused:
            return self.drop(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        scores = q @ k.transpose(1, 2) / math.sqrt(DIM) * self.scale
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        if self.mask == "causal":
            scores = scores.masked_fill(future, -1e9)
        elif self.mask == "inverted":
            scores = scores.masked_fill(~future, -1e9)
        return self.drop(scores.softmax(-1) @ v)


class Block(nn.Module):
    """Pre-norm attention with a residual connection."""

    def __init__(self, residual: bool, rounded: bool, eps: float, **attention: Any) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(DIM, eps=eps)
        self.attend = Attention(**attention)
        self.residual, self.rounded = residual, rounded

    def forward(self, x: Any) -> Any:
        added = self.attend(self.norm(x))
        if self.rounded:
            added = added.bfloat16().float()
        return x + added if self.residual else added


class Model(nn.Module):
    def __init__(
        self,
        *,
        residual: bool = True,
        rounded: bool = False,
        eps: float = 1e-5,
        offset: int = 0,
        head_first: bool = False,
        **attention: Any,
    ) -> None:
        super().__init__()
        if head_first:
            self.head = nn.Linear(DIM, WORDS)
        self.words = nn.Embedding(WORDS, DIM)
        self.places = nn.Embedding(LENGTH + 1, DIM)
        self.block = Block(residual, rounded, eps, **attention)
        if not head_first:
            self.head = nn.Linear(DIM, WORDS)
        self.offset = offset

    def forward(self, tokens: Any) -> Any:
        places = torch.arange(tokens.shape[1]) + self.offset
        return self.head(self.block(self.words(tokens) + self.places(places)))


def mean_loss(logits: Any, labels: Any) -> Any:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)


def adamw(parameters: Any) -> Any:
    return torch.optim.AdamW(parameters, lr=1e-2)


def train(
    *,
    seed: int = 0,
    steps: int = 3,
    loss: Callable[[Any, Any], Any] = mean_loss,
    shift: int = 1,
    divisor: float = 1.0,
    optimizer: Callable[[Any], Any] = adamw,
    wrap: Callable[[nn.Module], Any] = lambda model: model,
    backwards: bool = False,
    before: Callable[[], Any] = lambda: None,
    **model: Any,
) -> Callable[[], None]:
    """What trains the model from a seed, as one pipeline would."""

    def run() -> None:
        torch.manual_seed(seed)
        data = torch.randint(1, WORDS, (steps * BATCH, LENGTH + 1), generator=torch.Generator().manual_seed(seed))
        data[::3, -4:] = PAD
        batches = list(data.split(BATCH))
        before()
        net = wrap(Model(**model))
        stepping = optimizer(net.parameters())
        for tokens in reversed(batches) if backwards else batches:
            stepping.zero_grad()
            value = loss(net(tokens[:, :-1])[:, : LENGTH + 1 - shift], tokens[:, shift:]) / divisor
            value.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 10.0)
            stepping.step()

    return run


def recorder(folder: Path) -> Record:
    """Runs something under the probe, in this process, and reads the run."""
    count = 0

    def record(something: Callable[[], Any]) -> Run:
        nonlocal count
        count += 1
        with observe(folder / f"run{count}"):
            something()
        return load_run(folder / f"run{count}")

    return record


class Judge:
    """Records trainings of any kind with a seed, as with `--seed`, and learns from them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def run(self, training: Callable[[int], None], seed: int = 0) -> Run:
        self._count += 1
        with observe(self._folder / str(self._count), seed=seed):
            training(seed)
        return load_run(self._folder / str(self._count))

    def golden(self, training: Callable[[int], None], again: Callable[[int], None] | None = None) -> Golden:
        """Of two seeds, the first of which runs once more: `again`, where that is not the same training."""
        runs = [self.run(training, seed) for seed in (0, 1)]
        return learn(runs, pipeline="judged", seeds=(0, 1), repeated=[self.run(again or training)])


def golden_of(record: Record, **changes: Any) -> Golden:
    return learn([record(train(seed=seed, **changes)) for seed in (0, 1)], pipeline="replayed", seeds=(0, 1))


def replayed(golden: Golden, run: Run) -> list[Violation]:
    """What replay has to say about a run, cause first."""
    outcome = check_run(golden, run, same_spec=True)
    found = [item for incident in outcome.incidents for item in incident.violations]
    return [item for item in found if item.invariant.relation == "Replay"]


def claimed(outcome: CheckOutcome) -> int:
    """How many rules of replay could be evaluated."""
    return sum(
        item.invariant.relation == "Replay" and item.verdict in (Verdict.HELD, Verdict.VIOLATED)
        for item in outcome.verdicts
    )
