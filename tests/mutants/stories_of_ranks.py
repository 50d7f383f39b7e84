"""Stories of two ranks, each of which sees something of its own."""

from __future__ import annotations

import torch
import torch.distributed as dist
from stories_of_steps import weight_after_one_step
from story import line, ranked, weight
from torch import nn


@ranked("all-reduce-dropped-on-one-rank", "all-reduce-corrupted-on-one-rank", "all-reduce-skipped")
def reduced(_rank: int) -> float:
    value = torch.ones(1)
    dist.all_reduce(value)
    return round(value.item(), 4)


@ranked("broadcast-corrupted-on-one-rank")
def sent(rank: int) -> float:
    value = torch.tensor([1.0 - rank])
    dist.broadcast(value, src=0)
    return round(value.item(), 4)


@ranked("ranks-begin-apart", "raw-module-called", "no-sync-over-all")
def weight_and_gradient(rank: int) -> list[float]:
    model = nn.parallel.DistributedDataParallel(line())
    begun = model.module.weight.item()
    model(torch.full((1, 1), 1.0 + 2.0 * rank)).sum().backward()
    return [round(begun, 4), model.module.weight.grad.item()]


@ranked("clipping-on-one-rank")
def gradient_after_clipping(_rank: int) -> float:
    w = weight()
    (w * 10).sum().backward()
    torch.nn.utils.clip_grad_norm_([w], 1.0)
    return round(w.grad.item(), 3)


@ranked("learning-rate-differs-on-one-rank")
def weight_after_a_step(_rank: int) -> float:
    return weight_after_one_step()
