"""What stories are made of: where they are entered, and the smallest weights and layers to train."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Story = Callable[[], Any]
STORIES: dict[str, Story] = {}
RANKED: dict[str, Callable[[int], Any]] = {}
"""Stories of two ranks; each returns what one rank saw."""


def story(*kinds: str) -> Callable[[Story], Story]:
    def enter(function: Story) -> Story:
        STORIES.update(dict.fromkeys(kinds, function))
        return function

    return enter


def ranked(*kinds: str) -> Callable[[Callable[[int], Any]], Callable[[int], Any]]:
    def enter(function: Callable[[int], Any]) -> Callable[[int], Any]:
        RANKED.update(dict.fromkeys(kinds, function))
        return function

    return enter


def weight(value: float = 0.0) -> nn.Parameter:
    return nn.Parameter(torch.full((1,), value))


def line(*, bias: bool = False) -> nn.Linear:
    """One input, one output, a weight of one."""
    layer = nn.Linear(1, 1, bias=bias)
    with torch.no_grad():
        layer.weight.fill_(1.0)
    return layer
