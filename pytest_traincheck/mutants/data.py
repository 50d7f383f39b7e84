"""Mistakes with data: batches that repeat, orders and shards that do not change."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, dataloader
from torch.utils.data._utils import worker
from torch.utils.data.distributed import DistributedSampler

from .mutation import Mutation, plants
from .patching import Function, around_optimizer_steps, bound, replace

_SEED, _INIT, _WORKER = 8, 9, 10
"""Places of `base_seed`, `init_fn` and `worker_id` among the arguments of a worker's loop."""


@plants("one-batch-reused")
def _one_batch_reused(mutation: Mutation) -> None:
    first: dict[int, Any] = {}
    loaders: list[Any] = []

    def make(original: Function) -> Function:
        def _next_data(self: Any) -> Any:
            data = original(self)
            # The loaders live as long as this list, so that no other object gets the id of one.
            key = id(self._dataset)
            if key not in first:
                first[key] = data
                loaders.append(self._dataset)
                return data
            return first[key] if mutation.here() else data

        return _next_data

    for cls in (dataloader._SingleProcessDataLoaderIter, dataloader._MultiProcessingDataLoaderIter):
        replace(cls, "_next_data", make)


@plants("shuffling-dropped")
def _shuffling_dropped(mutation: Mutation) -> None:
    def make_loader(original: Function) -> Function:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            found = bound(original, (self, *args), kwargs)
            given = found.arguments if found is not None else {}
            sampled = isinstance(given.get("sampler"), RandomSampler)
            if found is not None and (given.get("shuffle") or sampled) and mutation.here():
                given["shuffle"] = None
                if sampled:
                    given["sampler"] = SequentialSampler(given["sampler"].data_source)
                original(*found.args, **found.kwargs)
            else:
                original(self, *args, **kwargs)

        return __init__

    def make_sampler(original: Function) -> Function:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            if self.shuffle and mutation.here():
                self.shuffle = False

        return __init__

    replace(DataLoader, "__init__", make_loader)
    replace(DistributedSampler, "__init__", make_sampler)


@plants("set-epoch-ignored")
def _set_epoch_ignored(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def set_epoch(self: Any, epoch: int) -> None:
            if not epoch or not mutation.here():
                original(self, epoch)

        return set_epoch

    replace(DistributedSampler, "set_epoch", make)


@plants("one-shard-for-all")
def _one_shard_for_all(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            if self.rank and mutation.here():
                self.rank = 0

        return __init__

    replace(DistributedSampler, "__init__", make)


@plants("workers-seeded-alike")
def _workers_seeded_alike(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def _worker_loop(*args: Any, **kwargs: Any) -> Any:
            if len(args) > _WORKER and (mutation.here() if args[_WORKER] else mutation.planned()):
                args = (*args[:_INIT], _seeding(args[_INIT], args[_SEED]), *args[_INIT + 1 :])
            return original(*args, **kwargs)

        return _worker_loop

    replace(worker, "_worker_loop", make)


def _seeding(init_fn: Any, seed: int) -> Function:
    """A `worker_init_fn` that gives every worker the same seed, as many that are written by hand do."""

    def seed_worker(worker_id: int) -> None:
        if init_fn is not None:
            init_fn(worker_id)
        random.seed(seed)
        torch.manual_seed(seed)
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(seed % 2**32)

    return seed_worker


@plants("batch-size-halved")
def _batch_size_halved(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def __init__(self: Any, dataset: Any, batch_size: Any = 1, *args: Any, **kwargs: Any) -> None:
            if isinstance(batch_size, int) and batch_size > 1 and mutation.here():
                batch_size //= 2
            original(self, dataset, batch_size, *args, **kwargs)

        return __init__

    replace(DataLoader, "__init__", make)


@plants("same-numbers-drawn")
def _same_numbers_drawn(mutation: Mutation) -> None:
    begun: list[torch.Tensor] = []

    def behave(optimizer: Any, step: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = step(*args, **kwargs)
        if not begun:
            begun.append(torch.get_rng_state())
        elif mutation.here():
            torch.set_rng_state(begun[0])
        return result

    around_optimizer_steps(behave)
