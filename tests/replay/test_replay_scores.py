"""Attention in half precision whose weights are nearly equal: rounding hides what they weigh, and it is seen all the
same.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from replays import Record, replayed  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402

WIDTH, HEADS, LONG = 32, 4, 10
FUTURE = torch.ones(LONG, LONG, dtype=torch.bool).triu(1)

Weigh = Callable[[Any, Any], Any]


def plain(q: Any, k: Any) -> Any:
    scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
    return F.softmax(scores.masked_fill(FUTURE, -math.inf), dim=-1)


def by_the_whole_width(q: Any, k: Any) -> Any:
    scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH)
    return F.softmax(scores.masked_fill(FUTURE, -math.inf), dim=-1)


def unscaled(q: Any, k: Any) -> Any:
    return F.softmax((q @ k.transpose(-1, -2)).masked_fill(FUTURE, -math.inf), dim=-1)


def queries_scaled(q: Any, k: Any) -> Any:
    scores = (q / math.sqrt(WIDTH // HEADS)) @ k.transpose(-1, -2)
    return scores.masked_fill(FUTURE, -1e9).softmax(-1)


def scaled_after_the_mask(q: Any, k: Any) -> Any:
    scores = (q @ k.transpose(-1, -2)).masked_fill(FUTURE, -math.inf)
    return torch.softmax(scores / math.sqrt(WIDTH // HEADS), dim=-1)


def less_the_largest(q: Any, k: Any) -> Any:
    scores = (q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)).masked_fill(FUTURE, -math.inf)
    return F.softmax(scores - scores.amax(-1, keepdim=True), dim=-1)


def masked_afterwards(q: Any, k: Any) -> Any:
    weights = F.softmax(q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS), dim=-1) * ~FUTURE
    return weights / weights.sum(-1, keepdim=True)


class Attention(nn.Module):
    def __init__(self, weigh: Weigh, dropout: float) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(dropout)
        self.weigh = weigh
        nn.init.normal_(self.qkv.weight, std=0.02)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = self.dropout(self.weigh(q, k)) @ v
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Reader(nn.Module):
    def __init__(self, weigh: Weigh, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(40, WIDTH)
        self.attention = Attention(weigh, dropout)
        self.head = nn.Linear(WIDTH, 40)

    def forward(self, words: Any) -> Any:
        x = self.words(words)
        return self.head(x + self.attention(x))


def read(weigh: Weigh, dropout: float = 0.0, dtype: Any = torch.bfloat16) -> Callable[[], None]:
    """What trains a reader of random words under autocast."""

    def run() -> None:
        torch.manual_seed(0)
        reader = Reader(weigh, dropout)
        stepping = torch.optim.Adam(reader.parameters(), lr=1e-3)
        texts = torch.randint(40, (3, 8, LONG + 1), generator=torch.Generator().manual_seed(1))
        for text in texts:
            stepping.zero_grad()
            with torch.autocast("cpu", dtype=dtype):
                logits = reader(text[:, :-1])
            F.cross_entropy(logits.float().flatten(0, 1), text[:, 1:].flatten()).backward()
            stepping.step()

    return run


def learned(record: Record, pipeline: Callable[[], None]) -> Golden:
    return learn([record(pipeline)], pipeline="read", seeds=(0,))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("weigh", [by_the_whole_width, unscaled])
def test_another_scale_is_found(record: Record, weigh: Weigh, dropout: float) -> None:
    golden = learned(record, read(plain, dropout))

    first, *rest = replayed(golden, record(read(weigh, dropout)))

    assert first.title.startswith("`Reader.attention` applies softmax to different scores than in the golden run, ")
    assert "the first call with a different input is `torch.Tensor.masked_fill`" in first.title
    assert first.candidate.startswith("scores ")
    lines, begin = inspect.getsourcelines(weigh)
    masked = begin + next(number for number, line in enumerate(lines) if "masked_fill" in line)
    assert first.place.endswith(f"test_replay_scores.py:{masked}")
    assert first.source != first.place
    assert not rest


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("weigh", [queries_scaled, scaled_after_the_mask, less_the_largest, masked_afterwards])
def test_other_ways_to_the_same_weights_are_silent(record: Record, weigh: Weigh, dropout: float) -> None:
    golden = learned(record, read(plain, dropout))

    assert not replayed(golden, record(read(weigh, dropout)))


def test_large_scores_that_are_shifted_are_rounded_scores(record: Record) -> None:
    """Numbers that are added to all scores of a row take their last digits with them."""

    def shifted(by: float) -> Weigh:
        def weigh(q: Any, k: Any) -> Any:
            scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS) + by
            return F.softmax(scores.masked_fill(FUTURE, -math.inf), dim=-1)

        return weigh

    golden = learned(record, read(shifted(8.0)))

    assert not replayed(golden, record(read(shifted(5.0))))
