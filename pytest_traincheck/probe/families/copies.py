"""Copies of parameters that live outside modules: the averages of an EMA in a plain dictionary."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from .base import AVERAGED, watch

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder


_METHODS = ("clone", "__deepcopy__", "to", "float", "double", "half", "bfloat16")
"""What makes a tensor with the content of another, perhaps in another dtype."""
_COPYING = ("clone", "__deepcopy__")
"""The others put a tensor into the place of the one that they are given."""


def install(probe: Probe) -> None:
    """Observe the methods, and `torch.clone`."""

    def entered(*args: Any, **named: Any) -> Any:
        source = args[0] if args else named.get("input")  # without it torch raises
        recorder = probe.recorder
        if recorder is None or not (recorder.measures.early or recorder.by_hand.notes_copies):
            return None
        return source

    def left(converts: bool, source: Any, result: Any) -> None:
        if probe.recorder is not None:
            _note(probe.recorder, source, result, converts)

    for owner, name in ((torch, "clone"), *((torch.Tensor, name) for name in _METHODS)):
        made = functools.partial(left, name not in _COPYING)
        watch(probe, getattr(owner, name), entered, made, when=AVERAGED)


def _note(recorder: Recorder, source: Any, result: Any, converts: bool) -> None:
    if not isinstance(source, torch.Tensor) or type(result) is not torch.Tensor or result.grad_fn is not None:
        return
    if result is source or not result.is_floating_point():
        return  # `to` gives what it gets where that is as wanted
    if source.is_floating_point() and source.numel() > 1:
        recorder.copies.note(source, result)
        if converts:
            recorder.measures.converted(source, result)
