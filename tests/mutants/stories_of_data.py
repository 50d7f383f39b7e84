"""Stories of batches, samplers, workers and random numbers."""

from __future__ import annotations

import torch
from story import story, weight
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


@story("one-batch-reused", "batch-size-halved")
def batches() -> list[list[int]]:
    return [batch.tolist() for batch in DataLoader(list(range(4)), batch_size=2)]


@story("shuffling-dropped")
def samples_come_in_order() -> list[bool]:
    sampler = DistributedSampler(list(range(50)), num_replicas=1, rank=0)
    orders = [[int(sample) for sample in DataLoader(list(range(50)), shuffle=True)], list(sampler)]
    return [order == sorted(order) for order in orders]


@story("set-epoch-ignored")
def epoch_of_the_sampler() -> int:
    sampler = DistributedSampler(list(range(8)), num_replicas=2, rank=0)
    sampler.set_epoch(3)
    return sampler.epoch


@story("one-shard-for-all")
def second_shard() -> list[int]:
    return list(DistributedSampler(list(range(4)), num_replicas=2, rank=1, shuffle=False))


class Seeds(Dataset[int]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        return torch.initial_seed()


@story("workers-seeded-alike")
def seeds_of_two_workers() -> int:
    return len({int(seed) for seed in DataLoader(Seeds(), num_workers=2)})


@story("same-numbers-drawn")
def draws_repeat_themselves() -> bool:
    w = weight()
    optimizer = torch.optim.SGD([w], lr=1.0)
    drawn = []
    for _ in range(2):
        w.sum().backward()
        optimizer.step()
        drawn.append(torch.rand(1).item())
    return drawn[0] == drawn[1]
