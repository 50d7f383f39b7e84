"""Which entries of an optimizer's groups are hyper-parameters, and one hash of them all."""

from __future__ import annotations

from numbers import Number
from typing import Any

import torch

from . import digest as content
from .walk import text_of

_IMPLEMENTATION = frozenset({"params", "param_names", "foreach", "fused", "capturable", "differentiable"})


def hashed(groups: list[dict[str, Any]]) -> int:
    """A hash of the numbers, texts and flags of groups, those left out that only choose an implementation.

    What optimizers keep in a group beside them, such as a cache of step sizes, configures nothing: an update does the
    same with it and without.
    """
    parts = [
        sorted((name, text_of(_plain(value))) for name, value in group.items() if _configures(name, value))
        for group in groups
    ]
    return content.digest_nested(repr(parts))


def _configures(name: str, value: Any) -> bool:
    if name in _IMPLEMENTATION:
        return False
    kind = type(value)
    if kind is dict:
        value = list(value.values())
    return _is_scalar(value) or (kind in (list, tuple, dict) and _are_scalars(value))


def _are_scalars(items: Any) -> bool:
    """Whether a container holds a number, a text or a flag, and nothing but these."""
    given = [item for item in items if item is not None]
    return bool(given) and all(map(_is_scalar, given))


def _is_scalar(value: Any) -> bool:
    kind = type(value)
    if issubclass(kind, torch.Tensor):
        return not value.dim() and not value.is_meta
    return kind in (int, float, bool, str) or issubclass(kind, (int, float, str, Number))


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, torch.Tensor) else value
