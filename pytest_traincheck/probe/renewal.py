"""How much of what a model is given is the same, place by place, as one training step before.

A few elements stand for a tensor. The most frequent of them is left out, which is what pads and masks; a tensor of few
different values, such as classes, would repeat itself by chance and is not looked at. Whether all of a tensor is the
same is a question of its own: a graph, positions or a full batch.
"""

from __future__ import annotations

from typing import Any

import torch

from . import digest as content
from .spacing import stride
from .walk import tensors

KEPT = "kept."
"""Prefix of the measures; the path of the tensor among the arguments follows."""
STAYED = "stayed."
"""The same for whether all of it is the same."""

_SAMPLE = 256
_FEWEST = 16
"""Different values, and places other than the most frequent value, that a tensor must have to say something."""
_VARIED = 1 << 12
"""Elements among which so many different ones are looked for in a tensor that may be the same in every step."""
_DEPTH = 3
_TENSORS = 8


class Renewal:
    """Remembers a sample of the inputs of the first forward pass that a model made in a step."""

    def __init__(self) -> None:
        self._step = 0
        self._before: dict[tuple[int, str], torch.Tensor] = {}
        self._now: dict[tuple[int, str], torch.Tensor] = {}
        self._seen: set[int] = set()
        self._whole: dict[tuple[int, str], tuple[torch.Size, int]] = {}

    def stepped(self) -> None:
        """An optimizer has taken a step."""
        self._before.update(self._now)
        self._now = {}
        self._seen = set()

    def forget(self) -> None:
        """Nothing more is wanted."""
        self._before, self._now, self._seen, self._whole = {}, {}, set(), {}

    def shares(self, root: int, arguments: dict[str, Any]) -> list[tuple[str, float]]:
        """Of every input how much, and whether all, is the same as a step before, by the name of the measure. Call
        under `quiet()`.
        """
        if root in self._seen:
            return []  # within a step the same batch may go through the model more than once
        self._seen.add(root)
        found = []
        named = [pair for name, value in arguments.items() for pair in tensors(name, value, _DEPTH)]
        for path, tensor in named[:_TENSORS]:
            if (stayed := self._stayed((root, path), tensor)) is not None:
                found.append((f"{STAYED}{path}", float(stayed)))
            sample = _sample(tensor)
            if sample is None:
                continue
            before = self._before.get((root, path))
            self._now[root, path] = sample
            if before is not None and before.shape == sample.shape:
                counted = sample != sample.mode().values
                found.append((f"{KEPT}{path}", float((before[counted] == sample[counted]).double().mean())))
        return found

    def _stayed(self, key: tuple[int, str], tensor: torch.Tensor) -> bool | None:
        """Whether an input is what it was a step before; None where it was not given then, or says nothing."""
        readable = content.local(tensor)
        if readable is None or readable.layout is not torch.strided or not _is_varied(readable):
            return None
        now = tensor.shape, content.digest(readable)
        before, self._whole[key] = self._whole.get(key), now
        return None if before is None else before == now


def _is_varied(readable: torch.Tensor) -> bool:
    if readable.numel() < _FEWEST or readable.dtype.is_complex or readable.dtype is torch.bool:
        return False
    flat = readable.detach().reshape(-1)
    return bool(torch.unique(flat[:: -(-flat.numel() // _VARIED)].to(torch.float64)).numel() >= _FEWEST)


def _sample(tensor: torch.Tensor) -> torch.Tensor | None:
    """Evenly spaced elements, shape (n,), float64 on the CPU; none of a tensor that says nothing."""
    readable = content.local(tensor)
    if readable is None or readable.layout is not torch.strided or readable.numel() < _FEWEST:
        return None
    if readable.dtype.is_complex or readable.dtype is torch.bool:
        return None
    flat = readable.detach().reshape(-1)
    taken = flat[:: stride(flat.numel(), _SAMPLE)].to("cpu", torch.float64, copy=True)
    if torch.unique(taken).numel() < _FEWEST or int((taken != taken.mode().values).sum()) < _FEWEST:
        return None
    return taken
