"""What a softmax weighs: its input without what it ignores, a number added to every score of a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from . import digest as content
from .sketch import EXTREME, LARGEST

CENTRED = "centred"
"""Slot: `centred.PARAMETER`."""

_FUNCTION = "softmax"


def scores(function: str, arguments: Mapping[str, Any]) -> torch.Tensor | None:
    """The scores that a softmax is given, less the mean of those it may choose from; zero for the others.

    `function` is the whole name of what is called. In float64, of the shape of the input; `None` for another function
    and where the input cannot be read. Call under `quiet()`.
    """
    if function.rpartition(".")[2] != _FUNCTION:
        return None
    tensor, dim = arguments.get("input"), arguments.get("dim")
    if not isinstance(tensor, torch.Tensor) or not isinstance(dim, int):
        return None
    readable = content.local(tensor)
    if readable is None or readable.layout is not torch.strided or not readable.dtype.is_floating_point:
        return None
    if readable.is_mps or not 0 < readable.numel() <= LARGEST or not -readable.dim() <= dim < readable.dim():
        return None
    numbers = readable.detach().to(torch.float64)
    # A comparison with NaN is false.
    chosen = numbers.abs() < EXTREME
    numbers = torch.where(chosen, numbers, 0.0)
    mean = numbers.sum(dim, keepdim=True) / chosen.sum(dim, keepdim=True).clamp(min=1)
    return torch.where(chosen, numbers - mean, 0.0)
