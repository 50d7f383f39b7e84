"""Stories of batches, samplers, workers and random numbers."""

from __future__ import annotations

from typing import Any

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


class Samples(Dataset[Any]):
    """Rows of ones, a class each, and a mask."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": torch.ones(3), "y": index, "mask": torch.tensor([True, index > 1])}


def loaded() -> list[dict[str, Any]]:
    """The same batch as the training process makes it, and as a worker does."""
    return [next(iter(DataLoader(Samples(), batch_size=4, num_workers=workers))) for workers in (0, 1)]


@story("labels-shifted-in-batches", "labels-permuted-in-batches")
def labels_of_a_batch() -> list[list[int]]:
    return [batch["y"].tolist() for batch in loaded()]


@story("masks-inverted-in-batches")
def masks_of_a_batch() -> list[int]:
    return [int(batch["mask"].sum()) for batch in loaded()]


@story("inputs-zeroed-in-batches", "inputs-noised-in-batches")
def inputs_of_a_batch() -> list[list[bool]]:
    return [(batch["x"] == 1).all(1).tolist() for batch in loaded()]
