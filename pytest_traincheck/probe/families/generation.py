"""Generation of tokens: how many a model was asked for, and how many came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..context import Call, ThreadState
from ..names import class_name, library_of
from ..symbols import Api
from .base import Family, observe

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder

METHOD = "generate"
KIND = "generate"
"""The type of its calls."""


class Generation(Family):
    """A `generate` method of a module. Its limit is among its arguments, named `max_new_tokens` by most."""

    method = True
    outermost = True

    def __init__(self, owner: type) -> None:
        self._api = Api(f"{class_name(owner)}.{METHOD}", KIND, library_of(owner.__module__))

    def api(self, recorder: Recorder, args: tuple[Any, ...]) -> Api | None:
        return self._api

    def mod(self, recorder: Recorder, args: tuple[Any, ...]) -> int:
        return recorder.modules.mod(recorder.modules.info(args[0]))

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        made = _length(result)
        given = next((value for value in (*args[1:], *call.kwargs.values()) if _length(value) is not None), None)
        if made is None:
            return
        prompt = _length(given) or 0
        recorder.measures.take(state, "generate.new", call, float(made - prompt))


def _length(value: Any) -> int | None:
    """Tokens in a sequence; those of the whole batch have one length."""
    if isinstance(value, torch.Tensor) and value.dim() and not value.is_floating_point():
        return int(value.shape[-1])
    if isinstance(value, list) and value and all(type(item) is int for item in value):
        return len(value)
    return None


def prepare(probe: Probe, cls: type) -> None:
    """Observe the method `generate` of a class of modules, where it is defined."""
    owner = next((base for base in cls.__mro__ if METHOD in vars(base)), None)
    if owner is None or not callable(vars(owner)[METHOD]):
        return
    observe(probe, vars(owner)[METHOD], Generation(owner))
