"""Trained tensors that no module and no optimizer holds: what they are called, and where they are.

A program without modules keeps its weights in a dictionary, a list or a few variables. They are found as the leaves of
the graph that `backward` goes through, and make up a model of their own. Nothing here keeps a tensor alive.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .walk import attributes, pairs, sequence

NAME = "parameters"
"""What the model is called that such tensors make up."""
_NODES = 20_000
"""Nodes of a graph that are looked through."""
_MOST = 256
"""Such tensors of one graph; a program with more of them is left alone."""


class Held:
    """A place for one tensor after the other: an update may put a new tensor where the old one was."""

    __slots__ = ("_ref",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self._ref = weakref.ref(tensor)

    def __call__(self) -> torch.Tensor | None:
        return self._ref()

    def put(self, tensor: torch.Tensor) -> None:
        """Another tensor has taken the place."""
        self._ref = weakref.ref(tensor)


def leaves(roots: Any) -> list[torch.Tensor] | None:
    """The tensors that the graph behind some losses gives gradients to, each once, in the order in which they are met
    from the losses; `None` for a graph that is too large.
    """
    losses = [roots] if isinstance(roots, torch.Tensor) else sequence(roots) or ()
    pending = [loss.grad_fn for loss in reversed(losses) if isinstance(loss, torch.Tensor) and loss.grad_fn is not None]
    seen: set[Any] = set()
    found: dict[int, torch.Tensor] = {}
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if len(seen) > _NODES:
            return None
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, torch.Tensor):
            found.setdefault(id(leaf), leaf)
        pending += [child for child, _ in reversed(node.next_functions) if child is not None]
    return list(found.values())


def named(tensors: Sequence[torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
    """What the program calls each of some tensors: by its key in a dictionary, the attribute or the variable of a
    module, else by its place in a list, else by its number here; sorted by name where all have one.
    """
    if len(tensors) > _MOST:
        return []
    wanted = {id(tensor): place for place, tensor in enumerate(tensors)}
    found: list[tuple[int, str]] = [(3, str(place)) for place in range(len(tensors))]
    for holder in gc.get_referrers(*tensors):
        if holder is tensors:
            continue
        for rank, name, item in _entries(holder):
            place = wanted.get(id(item))
            if place is not None and (rank, name) < found[place]:
                found[place] = rank, name
    names = [name for _, name in found]
    if len(set(names)) < len(names):
        return [(str(place), tensor) for place, tensor in enumerate(tensors)]
    both = list(zip(names, tensors, strict=True))
    return sorted(both, key=lambda pair: pair[0]) if all(rank < 3 for rank, _ in found) else both


def _entries(holder: Any) -> Iterator[tuple[int, str, Any]]:
    """How good a name each thing gets from what refers to it, the name, and the thing."""
    held = pairs(holder)
    if held is not None:
        yield from ((0, name, item) for name, item in held)
    elif type(holder) is list or type(holder) is tuple:
        yield from ((2, str(place), item) for place, item in enumerate(holder[:_MOST]))
    else:
        yield from ((1, name, item) for name, item in attributes(holder))
