"""The autograd graph behind a loss, as far as it is a sum of terms."""

from __future__ import annotations

from typing import Any

import torch

_SUMS = ("AddBackward", "SubBackward", "StackBackward", "CatBackward")
_SCALES = ("MulBackward", "DivBackward", "NegBackward", "ToCopyBackward", "ViewBackward", "ReshapeAliasBackward",
           "SqueezeBackward", "UnsqueezeBackward", "SelectBackward", "CloneBackward", "AliasBackward")  # fmt: skip
_MEANS = ("SumBackward", "MeanBackward")
_LIMIT = 256
"""Nodes that are looked at; a longer sum is not counted."""


def terms(loss: torch.Tensor) -> tuple[int, int] | None:
    """How many terms of a loss carry gradients: counted as sums of single numbers, and counted also through means and
    sums over elements, which gives as many or more. `None` for a loss that no graph leads to.
    """
    if loss.grad_fn is None:
        return None
    coarse, fine = _count(loss.grad_fn, through_means=False), _count(loss.grad_fn, through_means=True)
    return None if coarse is None or fine is None else (coarse, fine)


def _count(node: Any, *, through_means: bool) -> int | None:
    transparent = (*_SCALES, *_MEANS) if through_means else _SCALES
    pending = [node]
    seen = found = 0
    while pending:
        node = pending.pop()
        seen += 1
        if seen > _LIMIT:
            return None
        name = type(node).__name__
        children = [child for child, _ in node.next_functions if child is not None]
        if name.startswith(_SUMS) or (len(children) == 1 and name.startswith(transparent)):
            pending += children
        else:
            found += 1
    return found
