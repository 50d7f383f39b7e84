"""Copies of parameters that live outside modules: the averages of an EMA in a plain dictionary."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .base import dressed, is_compiling

if TYPE_CHECKING:
    from ..install import Probe


_METHODS = ("clone", "__deepcopy__", "to", "float", "double", "half", "bfloat16")
"""What makes a tensor with the content of another, perhaps in another dtype."""


def install(probe: Probe) -> None:
    """Wrap the methods, and `torch.clone`."""
    for owner, name in ((torch, "clone"), *((torch.Tensor, name) for name in _METHODS)):
        probe.patches.replace(owner, name, lambda original: _noting(probe, original), alias=owner is torch)


def _noting(probe: Probe, original: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        recorder = None if is_compiling() else probe.recorder
        if recorder is not None and recorder.measures.early and args and not recorder.threads.busy:
            try:
                _note(recorder, args[0], result)
            except Exception as error:  # noqa: BLE001 - a failure of the probe must never reach the user's code
                recorder.failed("noting a copy", error)
        return result

    return dressed(wrapper, original)


def _note(recorder: Any, source: Any, result: Any) -> None:
    if not isinstance(source, torch.Tensor) or type(result) is not torch.Tensor or result.grad_fn is not None:
        return
    if result is source or not result.is_floating_point():
        return  # `to` gives what it gets where that is as wanted
    if source.is_floating_point() and source.numel() > 1:
        recorder.variables.note_copy(source, result)
