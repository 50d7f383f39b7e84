"""`torch.save` and `torch.load`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .base import Named, recording

if TYPE_CHECKING:
    from ..install import Probe


def install(probe: Probe) -> None:
    """Wrap both functions."""
    for name in ("save", "load"):
        family = Named(f"torch.{name}", "io")
        probe.patches.replace(torch, name, recording(family, probe))
