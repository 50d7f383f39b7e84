"""What values are made of, read without running a line of the user's: containers, mappings, dataclasses, objects.

A dict is asked as a dict, whatever methods its class has; other objects show their attributes. A `keys`, a
`__getitem__` or a property of somebody else's could count, load, draw or raise.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator
from typing import Any

import torch

from .theirs import is_theirs

ITEMS = 32
"""Entries of a list or tuple that are walked."""

_get_attribute = object.__getattribute__


def pairs(value: Any) -> list[tuple[str, Any]] | None:
    """Name and value of all that a mapping, such as a batch or a `ModelOutput`, holds; `None` for everything else."""
    kind = type(value)  # an object may say of itself that it is of another class, or raise when it is asked
    if not issubclass(kind, dict):
        # An abstract class would keep a table of the classes that it was asked about, by their hash.
        if all(base is not UserDict for base in type.__getattribute__(kind, "__mro__")):
            return None
        value = _attributes(value).get("data")
        if type(value) is not dict:
            return None
    return [(_text(name), item) for name, item in dict.items(value)]


def sequence(value: Any) -> tuple[Any, ...] | None:
    """The items of a list or tuple, named tuples included; `None` for everything else."""
    kind = type(value)
    if issubclass(kind, tuple):
        return tuple(tuple.__iter__(value))
    return tuple(list.__iter__(value)) if issubclass(kind, list) else None


def attributes(value: Any) -> list[tuple[str, Any]]:
    """The attributes of an object of a class of somebody's: a dataclass, a batch of torch-geometric."""
    kind = type(value)
    if kind.__module__ == "builtins" or issubclass(kind, (type, torch.Tensor, torch.nn.Module)):
        return []
    return [(name, item) for name, item in _attributes(value).items() if type(name) is str]


def attribute(value: Any, name: str, default: Any = None) -> Any:
    """An attribute that an object has itself, or that is a plain value of its class: no property is asked."""
    found = _attributes(value)
    if name in found:
        return found[name]
    for base in type.__getattribute__(type(value), "__mro__"):
        entries = type.__getattribute__(base, "__dict__")
        if name in entries:
            held = entries[name]
            return default if hasattr(type(held), "__get__") else held
    return default


def _attributes(value: Any) -> dict[str, Any]:
    try:
        found = _get_attribute(value, "__dict__")
    except AttributeError:
        return {}
    return dict(found) if type(found) is dict else {}


def text_of(value: Any) -> str:
    """The text of a plain value. Python writes an integer of some thousand digits in no base but a power of two."""
    try:
        return repr(value)
    except ValueError as error:
        if is_theirs(error):
            raise
        return hex(value) if type(value) is int else type(value).__name__


def _text(name: Any) -> str:
    return name if type(name) is str else text_of(name) if id(type(name)) in _SIMPLE else type(name).__name__


# By `id`: a class may have a metaclass that says what it is equal to.
_SIMPLE = frozenset(map(id, (int, float, bool, bytes, type(None))))


def tensors(name: str, value: Any, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in a value with the path that leads to it, which begins with `name`. NumPy arrays are such."""
    if issubclass(type(value), torch.Tensor):
        yield name, value
        return
    if not depth:
        return
    items: Any = pairs(value)
    if items is None:
        found = sequence(value)
        if found is not None:
            items = [(str(place), item) for place, item in enumerate(found[:ITEMS])]
        elif type(value).__module__ == "numpy":
            items = _as_tensor(value)
        else:
            items = attributes(value)[:ITEMS]
    for key, item in items:
        yield from tensors(f"{name}.{key}" if key != "" else name, item, depth - 1)


def _as_tensor(array: Any) -> list[tuple[str, torch.Tensor]]:
    try:
        return [("", torch.from_numpy(array.copy()))]
    except (AttributeError, TypeError, ValueError) as error:
        if is_theirs(error):
            raise
        return []  # texts, objects, single numbers
