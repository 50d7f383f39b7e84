"""What sort of numbers models are given, and losses as targets: in the first calls of each, in training and without
gradients, at whatever step those come.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from . import numerics
from .context import TRAINING, Call, ThreadState, quiet, unobservable
from .switches import Switches
from .walk import tensors

if TYPE_CHECKING:
    from .measures import Measures

PREFIX = "input."
ROWS = "input.rows."
"""Prefix of the number of rows of an input, with a hash that tells batches apart; the path of the tensor among the
arguments follows. Beside it stands what its numbers are like, as `input.negative.`.
"""
CALLS = 12
"""Calls of one model or loss function that are looked at, in each mode."""
_INPUTS = 8
_DEPTH = 3
"""How many inputs of a model are looked at, and how deep in containers they are looked for."""


class Given(Switches):
    """Writes measures of what is given, while calls are left to look at."""

    def __init__(self, *, wanted: bool = True) -> None:
        self._calls = CALLS if wanted else 0
        self._left: dict[tuple[int, int, int, bool], int] = {}

    def wants(self, call: Call) -> bool:
        """Whether this call is among those that are looked at; asking counts."""
        key = call.number, call.mod, call.flags & TRAINING, torch.is_grad_enabled()
        left = self._left.get(key, self._calls)
        if not left or unobservable():
            return False
        self._left[key] = left - 1
        return True

    def to_model(self, measures: Measures, state: ThreadState, call: Call, arguments: dict[str, Any]) -> None:
        """The tensors among a model's arguments."""
        with quiet(state):
            named = [pair for name, value in arguments.items() for pair in tensors(name, value, _DEPTH)]
        self.tensors(measures, state, call, named[:_INPUTS])

    def tensors(
        self, measures: Measures, state: ThreadState, call: Call, named: Iterable[tuple[str, torch.Tensor]]
    ) -> None:
        """Write what the numbers of each tensor are like. What requires a gradient was computed, and is no data."""
        for path, tensor in named:
            if tensor.requires_grad:
                continue
            with quiet(state):
                found = numerics.sorts_of_numbers(tensor)
            if found is not None:
                rows, digest, facts = found
                measures.take(state, f"{ROWS}{path}", call, float(rows), digest)
                for name, value in facts.items():
                    measures.take(state, f"{PREFIX}{name}.{path}", call, value)
