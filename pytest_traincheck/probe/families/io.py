"""`torch.save` and `torch.load`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .base import Named, observe

if TYPE_CHECKING:
    from ..install import Probe


def install(probe: Probe) -> None:
    """Observe both functions."""
    for name in ("save", "load"):
        observe(probe, getattr(torch, name), Named(f"torch.{name}", "io"))
