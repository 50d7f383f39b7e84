"""Dropout that is drawn as on a GPU, on machines that have none: from a counter, while torch's generator stands still.

Only the generator of the device is made up. Its states have the 16 bytes of those of CUDA; what looks at them, and what
is made of them, is the real thing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_traincheck.probe import cuda_generators

STEPS = 4
"""What a kernel of dropout takes, whatever the size of its tensor."""


class Counter:
    """The default generator of a device."""

    device = torch.device("cuda")

    def __init__(self, seed: int = 0, offset: int = 0) -> None:
        self.seed, self.offset = seed, offset

    def get_state(self) -> Any:
        return torch.tensor([self.seed, self.offset]).view(torch.uint8)

    def manual_seed(self, seed: int) -> None:
        self.seed, self.offset = seed, 0

    def draw(self) -> torch.Generator:
        """A generator for the numbers of the next kernel."""
        own = torch.Generator().manual_seed(1_000_003 * self.seed + self.offset)
        self.offset += STEPS
        return own


class OnDevice(TorchDispatchMode):
    """Dropout is drawn from a counter."""

    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self._counter = counter

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.ops.aten.bernoulli_.float:
            return function(*args, generator=self._counter.draw())
        return function(*args, **(kwargs or {}))


@contextmanager
def devices(*counters: Counter) -> Iterator[None]:
    """The process uses CUDA devices with these generators. The first is the current device, and dropout runs on it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_generators, "initialised", lambda: True)
        patch.setattr(torch.cuda, "default_generators", counters)
        patch.setattr(torch.cuda, "current_device", lambda: 0)
        with OnDevice(counters[0]):
            yield
