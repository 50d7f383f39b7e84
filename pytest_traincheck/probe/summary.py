"""Summaries of arguments and results: a cheap hashable key for the hot path, and the JSON form, made once per key."""

from __future__ import annotations

import math
from typing import Any

import torch

from .digest import Lazy
from .theirs import is_theirs
from .walk import attributes, pairs, text_of

MAX_TEXT = 80
MAX_ITEMS = 16
DEPTH = 2

_SCALARS = (int, float, bool)
_TYPE = "@type"
_NO_SHAPE = torch.Size()
_TENSOR, _PARAMETER = torch.Tensor, torch.nn.Parameter


def key_of(value: Any, depth: int = DEPTH) -> Any:
    """A hashable value that is equal for two things with equal summaries. Holds no reference to a tensor.

    Scalars carry their type, since `1 == True == 1.0`.
    """
    kind = type(value)
    if kind is _TENSOR or kind is _PARAMETER:
        try:
            shape = value.shape
        except RuntimeError as error:
            if is_theirs(error):
                raise
            shape = _NO_SHAPE  # nested tensors have none
        if value.is_cpu:
            return (value.dtype, shape, value.requires_grad)
        return (value.dtype, shape, value.requires_grad, value.device)
    if value is None or kind is str:
        return value if value is None or len(value) <= MAX_TEXT else value[:MAX_TEXT]
    if kind is int or kind is float or kind is bool:
        return (kind, value) if value == value else (kind, "nan")
    if issubclass(kind, _TENSOR):
        if issubclass(kind, Lazy):
            return kind
        return (value.dtype, value.shape, value.requires_grad, value.device)
    if kind is list or kind is tuple or kind is torch.Size:
        if depth == 0:
            return kind
        return (kind, *[key_of(item, depth - 1) for item in value[:MAX_ITEMS]])
    if issubclass(kind, dict):
        named = (pairs(value) or ())[:MAX_ITEMS] if depth else None
        return kind if named is None else (dict, *[(name[:MAX_TEXT], key_of(item, depth - 1)) for name, item in named])
    if kind is torch.dtype or kind is torch.device or kind is torch.layout or kind is torch.memory_format:
        return (kind, str(value))
    if depth and (tensors := _tensors_of(value)):
        return (dict, *[(name[:MAX_TEXT], key_of(item, 0)) for name, item in tensors])
    return kind if type(kind) is type else _named(kind)


def _tensors_of(value: Any) -> list[tuple[str, Any]]:
    """The tensors that an object holds, as a batch that is a dataclass does; its numbers and texts may be anything."""
    return [(name, item) for name, item in attributes(value) if issubclass(type(item), _TENSOR)][:MAX_ITEMS]


def _named(kind: Any) -> tuple[str, str]:
    """What stands for a class with a metaclass, whose hash and equality may be somebody's code."""
    module, name = (type.__getattribute__(kind, field) for field in ("__module__", "__qualname__"))
    return _TYPE, f"{module}.{name}"


def scalar(value: int | float | bool) -> int | float | bool | str:
    """A number as JSON can hold it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return text_of(value)[:MAX_TEXT]
    return value


def from_key(key: Any) -> Any:
    """The JSON summary of what `key_of` looked at."""
    if key is None or isinstance(key, str):
        return key
    if isinstance(key, type):
        return {"type": f"{key.__module__}.{key.__qualname__}"}
    head = key[0]
    if head is _TYPE:
        return {"type": key[1]}
    if isinstance(head, torch.dtype):
        dtype, shape, requires_grad, *device = key
        place = device[0].type if device else "cpu"
        tensor = {"dtype": dtype_name(dtype), "device": place, "shape": _sizes(shape), "requires_grad": requires_grad}
        return {"tensor": tensor}
    if head in _SCALARS:
        return key[1] if isinstance(key[1], str) else scalar(key[1])
    if head is list:
        return {"list": [from_key(item) for item in key[1:]]}
    if head is tuple or head is torch.Size:
        return {"tuple": [from_key(item) for item in key[1:]]}
    if head is dict:
        return {"dict": {name: from_key(item) for name, item in key[1:]}}
    return key[1]


def abstract(key: Any) -> Any:
    """The key with its numbers and texts replaced by their types, for calls whose arguments never repeat."""
    if isinstance(key, str):
        return str
    if isinstance(key, tuple):
        if key[0] in _SCALARS:
            return key[0]
        if key[0] in (list, tuple, torch.Size):
            return (key[0], *[abstract(item) for item in key[1:]])
        if key[0] is dict:
            return (dict, *[(name, abstract(item)) for name, item in key[1:]])
    return key


def dtype_name(dtype: torch.dtype) -> str:
    """`float32` for `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def _sizes(shape: Any) -> list[int]:
    # Symbolic sizes (inside a tracer) have no number.
    return [size if type(size) is int else -1 for size in shape]
