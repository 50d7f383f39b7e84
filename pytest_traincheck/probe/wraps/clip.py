"""Gradient clipping, under whichever name it is called."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import torch.nn.utils.clip_grad

from .base import Named, recording

if TYPE_CHECKING:
    from ..install import Probe

_NAMES = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm")


class Clip(Named):
    """Clipping functions call each other; only the outermost is recorded."""

    outermost = True


def install(probe: Probe) -> None:
    """Wrap the functions where they are defined and where torch exports them."""
    for name in _NAMES:
        family = Clip(f"torch.nn.utils.{name}", "clip")
        for owner in (sys.modules["torch.nn.utils.clip_grad"], torch.nn.utils):
            probe.patches.replace(owner, name, recording(family, probe))
