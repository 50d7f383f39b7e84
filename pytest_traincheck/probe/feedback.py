"""Whether a model is given what it returned the call before: the state of a recurrent network, or a picture that it is
to refine further.

Numbers are compared by their hashes, so that it does not matter whether a state was detached, copied or sliced out of a
tuple on the way.
"""

from __future__ import annotations

from typing import Any

import torch

from . import digest as content
from .walk import tensors

FED_BACK = "fed.back"
"""Name of the measure."""

_DEPTH = 3
_TENSORS = 16
_LARGEST = 1 << 20
"""Elements of the largest tensor that counts as a state."""


class Feedback:
    """Remembers hashes of what each model returned in its last call."""

    def __init__(self) -> None:
        self._returned: dict[int, dict[torch.Size, set[int]]] = {}

    def forget(self) -> None:
        """Nothing more is wanted."""
        self._returned = {}

    def is_given(self, root: int, arguments: dict[str, Any]) -> bool | None:
        """Whether an argument is what the model returned the call before; None at its first call. Under `quiet()`."""
        returned = self._returned.get(root)
        if returned is None:
            return None
        named = [pair for name, value in arguments.items() for pair in tensors(name, value, _DEPTH)]
        return any(
            content.digest(readable) in returned[readable.shape]
            for _, tensor in named[:_TENSORS]
            if (readable := _state(tensor)) is not None and readable.shape in returned
        )

    def returns(self, root: int, result: Any) -> None:
        """Remember what a model has returned. Call under `quiet()`."""
        found: dict[torch.Size, set[int]] = {}
        for _, tensor in [*tensors("", result, _DEPTH)][:_TENSORS]:
            if (readable := _state(tensor)) is not None:
                found.setdefault(readable.shape, set()).add(content.digest(readable))
        self._returned[root] = found


def _state(tensor: torch.Tensor) -> torch.Tensor | None:
    """What can be a state: several floating-point numbers that are not all zero."""
    readable = content.local(tensor)
    if readable is None or readable.layout is not torch.strided or not readable.is_floating_point():
        return None
    if not 1 < readable.numel() <= _LARGEST or content.state(readable) == content.ZERO:
        return None
    return readable
