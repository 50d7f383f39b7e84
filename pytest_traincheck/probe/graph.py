"""The autograd graph behind a loss, as far as it is a sum of terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_SUMS = ("AddBackward", "SubBackward", "StackBackward", "CatBackward")
_SCALES = ("MulBackward", "DivBackward", "NegBackward", "ToCopyBackward", "ViewBackward", "ReshapeAliasBackward",
           "SqueezeBackward", "UnsqueezeBackward", "SelectBackward", "CloneBackward", "AliasBackward")  # fmt: skip
_MEANS = ("SumBackward", "MeanBackward")
_LIMIT = 256
"""Nodes that are looked at; a longer sum is not counted."""
_NODES = 20_000
"""The same for the graph behind all terms."""


def terms(loss: torch.Tensor, *, through_means: bool) -> list[Any] | None:
    """The autograd nodes of the terms of a loss that carry gradients; `None` for a loss without a graph, or with too
    many. The loss is taken apart as a sum of single numbers, and `through_means` also through means and sums over
    elements, which gives as many terms or more.
    """
    if loss.grad_fn is None:
        return None
    transparent = (*_SCALES, *_MEANS) if through_means else _SCALES
    pending: list[Any] = [loss.grad_fn]
    found: list[Any] = []
    seen = 0
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
            found.append(node)
    return found


def weights(loss: torch.Tensor) -> list[float] | None:
    """What each term of a loss, taken apart as `terms` does without means, is multiplied by; in the order in which they
    are added. `None` where it is not plain numbers. Call under `quiet()`, and only where no program has hooks for saved
    tensors: what a node has saved goes through them.
    """
    if loss.grad_fn is None:
        return None
    pending: list[tuple[Any, float]] = [(loss.grad_fn, 1.0)]
    found: list[float] = []
    seen = 0
    while pending:
        node, weight = pending.pop()
        seen += 1
        if seen > _LIMIT:
            return None
        parts = _parts(node)
        if parts is None:
            found.append(weight)
            continue
        for child, factor in reversed(parts):
            if factor is None:
                return None
            pending.append((child, weight * factor))
    return found


def _parts(node: Any) -> list[tuple[Any, float | None]] | None:
    """The nodes that a node adds up, each with what it is multiplied by: `None` where that is not known. `None` for a
    node that does something else.
    """
    name = type(node).__name__
    places = [place for place, (child, _) in enumerate(node.next_functions) if child is not None]
    if not name.startswith(_SUMS) and (len(places) != 1 or not name.startswith(_SCALES)):
        return None
    parts: list[tuple[Any, float | None]] = []
    for place in places:
        factor: float | None = 1.0
        if name.startswith(("AddBackward", "SubBackward")) and place:
            factor = getattr(node, "_saved_alpha", None)
            factor = None if factor is None else float(factor) * (1 if name.startswith("Add") else -1)
        elif name.startswith("NegBackward"):
            factor = -1.0
        elif name.startswith("MulBackward"):
            factor = _number(getattr(node, "_saved_self" if place else "_saved_other", None))
        elif name.startswith("DivBackward"):
            divisor = None if place else _number(getattr(node, "_saved_other", None))
            factor = 1 / divisor if divisor else None
        parts.append((node.next_functions[place][0], factor))
    return parts


def _number(saved: Any) -> float | None:
    """A number that a node was given, where reading it waits for no other device."""
    return float(saved.item()) if isinstance(saved, torch.Tensor) and saved.numel() == 1 and saved.is_cpu else None


def means(nodes: Sequence[Any]) -> tuple[int, ...]:
    """Over how many elements each mean among the terms of a loss goes, sorted."""
    return tuple(sorted(int(node._saved_self_sym_numel) for node in nodes if type(node).__name__ == "MeanBackward0"))


def reached(nodes: Sequence[Any]) -> tuple[tuple[int, int], ...] | None:
    """For each different set of leaves that one of the terms of a loss sends gradients to: how many leaves, and how
    many elements they have together; sorted. `None` for a graph that is too large.
    """
    found: set[frozenset[int]] = set()
    sizes: dict[int, int] = {}
    budget = _NODES
    for term in nodes:
        leaves: set[int] = set()
        seen: set[Any] = set()
        pending = [term]
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            budget -= 1
            if not budget:
                return None
            leaf = getattr(node, "variable", None)
            if isinstance(leaf, torch.Tensor):
                leaves.add(id(leaf))
                sizes[id(leaf)] = leaf.numel()
            pending += [child for child, _ in node.next_functions if child is not None]
        found.add(frozenset(leaves))
    return tuple(sorted({(len(leaves), sum(sizes[leaf] for leaf in leaves)) for leaves in found if leaves}))
