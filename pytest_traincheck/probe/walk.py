"""Every tensor in a value: containers, mappings, named tuples, dataclasses such as `ModelOutput`, and NumPy arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

ITEMS = 32
"""Entries of a list or tuple that are walked."""


def tensors(name: str, value: Any, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in a value with the path that leads to it, which begins with `name`."""
    if isinstance(value, torch.Tensor):
        yield name, value
        return
    if not depth:
        return
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        items: Any = [(key, value[key]) for key in list(value.keys())]
    elif isinstance(value, (list, tuple)):
        items = enumerate(value[:ITEMS])
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    elif type(value).__module__ == "numpy" and hasattr(value, "__array_interface__"):
        items = _as_tensor(value)
    else:
        return
    for key, item in items:
        yield from tensors(f"{name}.{key}" if key != "" else name, item, depth - 1)


def _as_tensor(array: Any) -> list[tuple[str, torch.Tensor]]:
    try:
        return [("", torch.from_numpy(array.copy()))]
    except (TypeError, ValueError):
        return []  # texts and objects
