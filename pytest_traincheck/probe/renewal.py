"""How much of what a model is given is the same, place by place, as one training step before.

A few elements stand for a tensor. The most frequent of them is left out, which is what pads and masks; a tensor of few
different values, such as classes, would repeat itself by chance and is not looked at.
"""

from __future__ import annotations

from typing import Any

import torch

from . import digest as content
from .spacing import stride
from .walk import tensors

KEPT = "kept."
"""Prefix of the measures; the path of the tensor among the arguments follows."""

_SAMPLE = 256
_FEWEST = 16
"""Different values, and places other than the most frequent value, that a tensor must have to say something."""
_DEPTH = 3
_TENSORS = 8


class Renewal:
    """Remembers a sample of the inputs of the first forward pass that a model made in a step."""

    def __init__(self) -> None:
        self._step = 0
        self._before: dict[tuple[int, str], torch.Tensor] = {}
        self._now: dict[tuple[int, str], torch.Tensor] = {}
        self._seen: set[int] = set()

    def stepped(self) -> None:
        """An optimizer has taken a step."""
        self._before.update(self._now)
        self._now = {}
        self._seen = set()

    def forget(self) -> None:
        """Nothing more is wanted."""
        self._before, self._now, self._seen = {}, {}, set()

    def shares(self, root: int, arguments: dict[str, Any]) -> list[tuple[str, float]]:
        """The share of every input that is the same as a step before, by its path. Call under `quiet()`."""
        if root in self._seen:
            return []  # within a step the same batch may go through the model more than once
        self._seen.add(root)
        found = []
        named = [pair for name, value in arguments.items() for pair in tensors(name, value, _DEPTH)]
        for path, tensor in named[:_TENSORS]:
            sample = _sample(tensor)
            if sample is None:
                continue
            before = self._before.get((root, path))
            self._now[root, path] = sample
            if before is not None and before.shape == sample.shape:
                counted = sample != sample.mode().values
                found.append((path, float((before[counted] == sample[counted]).double().mean())))
        return found


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
