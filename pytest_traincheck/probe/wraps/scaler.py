"""Loss scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .base import Named, recording

if TYPE_CHECKING:
    from ..install import Probe


def install(probe: Probe) -> None:
    """Wrap the methods of `torch.amp.GradScaler`; the one of `torch.cuda.amp` inherits them."""
    for name in ("scale", "unscale_", "step", "update"):
        family = Named(f"torch.amp.GradScaler.{name}", "scaler", method=True)
        probe.patches.replace(
            torch.amp.GradScaler,
            name,
            recording(family, probe),
            alias=False,
        )
