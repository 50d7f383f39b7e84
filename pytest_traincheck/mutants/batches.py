"""Mistakes with what a batch holds, made where it is put together: in workers, or where there are none in the process
that trains.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils.data._utils import fetch as fetchers

from .mutation import Mutation, plants
from .patching import Function, replace

Parts = list[torch.Tensor]
Change = Callable[[torch.Tensor], torch.Tensor]

_DEPTH = 4
_EVERY = 4
"""Of so many examples one is spoiled."""
_SHIFT = 1


def _on_batches(mutation: Mutation, chosen: Callable[[Parts], Parts], change: Change) -> None:
    """Put `change(part)` in the place of each part of a batch that `chosen` picks."""

    def make(original: Function) -> Function:
        def fetch(self: Any, *args: Any, **kwargs: Any) -> Any:
            batch = original(self, *args, **kwargs)
            wrong = {id(part): part for part in chosen(_parts(batch, _DEPTH))}
            if not wrong or not mutation.here():
                return batch
            return _rebuilt(batch, lambda part: change(part) if id(part) in wrong else part, _DEPTH)

        return fetch

    for cls in (fetchers._MapDatasetFetcher, fetchers._IterableDatasetFetcher):
        replace(cls, "fetch", make)


def _parts(batch: Any, depth: int) -> Parts:
    """The tensors of a batch, in order."""
    if isinstance(batch, torch.Tensor):
        return [batch]
    return [part for item in _items(batch) for part in _parts(item, depth - 1)] if depth else []


def _items(batch: Any) -> list[Any]:
    if isinstance(batch, Mapping):
        return list(batch.values())
    if isinstance(batch, (list, tuple)):
        return list(batch)
    return list(vars(batch).values()) if hasattr(batch, "__dict__") and not callable(batch) else []


def _rebuilt(batch: Any, change: Change, depth: int) -> Any:
    """The same batch with other tensors. Nothing is written into: a part may be a view of the whole dataset."""
    if isinstance(batch, torch.Tensor):
        return change(batch)
    if not depth or not _items(batch):
        return batch
    if isinstance(batch, Mapping):
        made: Any = copy.copy(batch)
        for name in list(made):
            made[name] = _rebuilt(batch[name], change, depth - 1)
        return made
    if isinstance(batch, (list, tuple)):
        items = [_rebuilt(item, change, depth - 1) for item in batch]
        return type(batch)(*items) if hasattr(batch, "_fields") else type(batch)(items)
    made = copy.copy(batch)
    for name, value in vars(batch).items():
        object.__setattr__(made, name, _rebuilt(value, change, depth - 1))
    return made


def _largest(parts: Parts) -> Parts:
    """The inputs, which are the largest part; none where a batch is a single number."""
    found = max((part for part in parts if part.dim()), key=torch.Tensor.numel, default=None)
    return [] if found is None else [found]


def _beside_inputs(parts: Parts) -> Parts:
    inputs = _largest(parts)
    return [part for part in parts if inputs and part is not inputs[0] and part.shape[:1] == inputs[0].shape[:1]]


def _is_mask(part: torch.Tensor) -> bool:
    whole = not part.is_floating_point() and not part.is_complex()
    return whole and part.dim() > 1 and bool(((part == 0) | (part == 1)).all())


def _labels(parts: Parts) -> Parts:
    return [part for part in _beside_inputs(parts) if part.shape[0] > 1 and not _is_mask(part)]


def _classes(parts: Parts) -> Parts:
    integers = [part for part in _labels(parts) if not part.is_floating_point() and part.dtype is not torch.bool]
    return [part for part in integers if not part.is_complex() and int(part.max()) > 0]


def _next_class(part: torch.Tensor) -> torch.Tensor:
    # What is negative is no class, but what a loss ignores.
    return torch.where(part < 0, part, (part + _SHIFT) % (part.max() + 1))


@plants("labels-shifted-in-batches")
def _labels_shifted(mutation: Mutation) -> None:
    _on_batches(mutation, _classes, _next_class)


@plants("labels-permuted-in-batches")
def _labels_permuted(mutation: Mutation) -> None:
    _on_batches(mutation, _labels, lambda part: part.roll(1, 0))


@plants("masks-inverted-in-batches")
def _masks_inverted(mutation: Mutation) -> None:
    def masks(parts: Parts) -> Parts:
        return [part for part in _beside_inputs(parts) if _is_mask(part)]

    _on_batches(mutation, masks, lambda part: ~part if part.dtype is torch.bool else 1 - part)


@plants("inputs-zeroed-in-batches")
def _inputs_zeroed(mutation: Mutation) -> None:
    def zeroed(part: torch.Tensor) -> torch.Tensor:
        made = part.clone()
        made[::_EVERY] = 0
        return made

    _on_batches(mutation, _largest, zeroed)


@plants("inputs-noised-in-batches")
def _inputs_noised(mutation: Mutation) -> None:
    numbers = torch.Generator().manual_seed(0)

    def noised(part: torch.Tensor) -> torch.Tensor:
        made = part.clone()
        rows = made[::_EVERY]
        made[::_EVERY] = rows + torch.randn(rows.shape, generator=numbers).to(rows.dtype)
        return made

    _on_batches(mutation, lambda parts: [part for part in _largest(parts) if part.is_floating_point()], noised)
