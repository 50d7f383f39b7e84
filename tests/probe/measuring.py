"""A tiny language model, and ways to run it under the probe and to read what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from probe_runs import Trace, read_run
from torch import nn

Watch = Callable[[Callable[[], Any]], Trace]

BATCH, LENGTH, WORDS = 3, 10, 17


class Tiny(nn.Module):
    """A language model small enough to know by heart."""

    def __init__(self, mask: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 8)
        self.positions = nn.Embedding(LENGTH, 8)
        self.out = nn.Linear(8, WORDS)
        self.mask = mask

    def forward(self, tokens: Any) -> Any:
        length = tokens.shape[1]
        hidden = self.words(tokens) + self.positions(torch.arange(length))
        if self.mask:
            future = torch.ones(length, length, dtype=torch.bool).triu(1)
            scores = (hidden @ hidden.transpose(1, 2)).masked_fill(future, -1e9)
            hidden = scores.softmax(-1) @ hidden
        return self.out(hidden)

    def generate(self, tokens: Any, max_new_tokens: int = 4) -> Any:
        for _ in range(max_new_tokens):
            word = self(tokens[:, -LENGTH:])[:, -1:].argmax(-1)
            tokens = torch.cat([tokens, word], dim=1)
        return tokens


def words() -> Any:
    """Sequences in which nothing repeats itself."""
    return torch.stack([torch.randperm(WORDS)[:LENGTH] for _ in range(BATCH)])


def only(run_dir: Path) -> Trace:
    (trace,) = read_run(run_dir)
    assert trace.meta["probe_errors"] == []
    return trace


def steps(net: nn.Module, loss_of: Callable[[], Any], count: int = 1, lr: float = 0.1) -> Any:
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for _ in range(count):
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()
    return optimizer


def every_step(count: int) -> Iterator[Any]:
    net = Tiny(mask=True)
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(count):
        optimizer.zero_grad()
        tokens = words()
        F.cross_entropy(net(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        yield net


def named(trace: Trace, prefix: str) -> list[str]:
    """What measures that carry their finding in their name have found."""
    return [item.measure.removeprefix(prefix) for item in trace.measures if item.measure.startswith(prefix)]
