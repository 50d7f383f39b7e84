"""Gradient clipping, under whichever name it is called."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch.nn.utils.clip_grad

from ..context import Call, ThreadState
from .base import Named, recording

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder

_NAMES = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm")


class Clip(Named):
    """Clipping functions call each other; only the outermost is recorded."""

    outermost = True

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        if recorder.sketches.wanted:
            recorder.sketches.gradients(state, call)


def install(probe: Probe) -> None:
    """Wrap the functions where they are defined and where torch exports them."""
    for name in _NAMES:
        family = Clip(f"torch.nn.utils.{name}", "clip")
        for owner in (sys.modules["torch.nn.utils.clip_grad"], torch.nn.utils):
            probe.patches.replace(owner, name, recording(family, probe))
