"""Gradient clipping, under whichever name it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..context import Call, ThreadState
from .base import CLIP, Named, observe

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder

_NAMES = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm")


class Clip(Named):
    """Clipping functions call each other; only the outermost is recorded."""

    trains = True
    outermost = True
    part = CLIP

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        if recorder.sketches.wanted:
            recorder.sketches.gradients(state, call)


def install(probe: Probe) -> None:
    """Observe the functions."""
    for name in _NAMES:
        observe(probe, getattr(torch.nn.utils, name, None), Clip(f"torch.nn.utils.{name}", "clip"))
