"""The autograd graph behind a loss, as far as it is a sum of terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_SUMS = ("AddBackward", "SubBackward", "StackBackward", "CatBackward", "LerpBackward")
_ELEMENTWISE = ("AddcmulBackward", "AddcdivBackward", "WhereBackward")
_PRODUCTS = ("DotBackward", "MvBackward", "MmBackward", "BmmBackward", "AddmvBackward", "AddmmBackward",
             "AddbmmBackward", "BaddbmmBackward")  # fmt: skip
"""These and those above may add up in one operator what others write as several: sums where more terms are no fault. A
product of matrices is a layer, and no sum of terms, unless it weighs what was put together for it.
"""
_SCALES = ("MulBackward", "DivBackward", "NegBackward", "ToCopyBackward", "ViewBackward", "ReshapeAliasBackward",
           "SqueezeBackward", "UnsqueezeBackward", "SelectBackward", "CloneBackward", "AliasBackward",
           "PermuteBackward", "TransposeBackward", "TBackward", "ExpandBackward")  # fmt: skip
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
    pending: list[Any] = [loss.grad_fn]
    found: list[Any] = []
    seen = 0
    while pending:
        node = pending.pop()
        seen += 1
        if seen > _LIMIT:
            return None
        places = _summands(node, through_means=through_means)
        if places is None:
            found.append(node)
        else:
            pending += [node.next_functions[place][0] for place in places]
    return found


def _summands(node: Any, *, through_means: bool) -> list[int] | None:
    """Where a node has the nodes that it adds up, or the one that it passes on; `None` for one that does anything else,
    which is a term. `through_means` as for `terms`.
    """
    name = type(node).__name__
    transparent = (*_SCALES, *_MEANS) if through_means else _SCALES
    places = [place for place, (child, _) in enumerate(node.next_functions) if child is not None]
    adds_up = name.startswith(_SUMS) or (len(places) == 1 and name.startswith(transparent))
    if not adds_up and through_means:
        adds_up = name.startswith(_ELEMENTWISE) or (
            name.startswith(_PRODUCTS) and any(_is_put_together(node.next_functions[place][0]) for place in places)
        )
    return places if adds_up else None


def _is_put_together(node: Any) -> bool:
    """Whether a node stacks or joins tensors, or is a view of what does."""
    for _ in range(_LIMIT):
        name = type(node).__name__
        if name.startswith(("StackBackward", "CatBackward")):
            return True
        if not name.startswith(_SCALES) or node.next_functions[0][0] is None:
            return False
        node = node.next_functions[0][0]
    return False


def is_term(node: Any) -> bool:
    """Whether the node behind a loss is of a kind that neither adds up nor multiplies, whatever is behind it."""
    return node is not None and not type(node).__name__.startswith((*_SUMS, *_SCALES, *_ELEMENTWISE, *_PRODUCTS))


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
        places = _summands(node, through_means=False)
        if places is None:
            found.append(weight)
            continue
        for place in reversed(places):
            factor = _factor(node, place)
            if factor is None:
                return None
            pending.append((node.next_functions[place][0], weight * factor))
    return found


def _factor(node: Any, place: int) -> float | None:
    """What a node that adds up multiplies one of its summands by; `None` where that is no plain number."""
    name = type(node).__name__
    if name.startswith("LerpBackward"):
        weight = getattr(node, "_saved_weight", None)
        share = float(weight) if isinstance(weight, (int, float)) else _number(weight)
        return None if share is None or place > 1 else share if place else 1 - share
    if name.startswith(("AddBackward", "SubBackward")) and place:
        alpha = getattr(node, "_saved_alpha", None)
        return None if alpha is None else float(alpha) * (1 if name.startswith("Add") else -1)
    if name.startswith("NegBackward"):
        return -1.0
    if name.startswith("MulBackward"):
        return _number(getattr(node, "_saved_self" if place else "_saved_other", None))
    if name.startswith("DivBackward"):
        divisor = None if place else _number(getattr(node, "_saved_other", None))
        return 1 / divisor if divisor else None
    return 1.0


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
