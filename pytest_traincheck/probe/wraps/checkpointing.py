"""Activation checkpointing: how a part of the forward pass is run again in the backward pass."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..summary import key_of
from .base import Named, Parameters, observed

if TYPE_CHECKING:
    from ..install import Probe


class CheckpointParameters(Parameters):
    """Only the two choices that change what is computed; the rest are the function and its arguments."""

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return {"preserve_rng_state": key_of(kwargs.get("preserve_rng_state", True))}


class Checkpoint(Named):
    """`torch.utils.checkpoint.checkpoint`."""

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return (key_of(kwargs.get("preserve_rng_state", True)),)


def install(probe: Probe) -> None:
    """Wrap the function where it is defined; `checkpoint_sequential` reaches it there."""
    family = Checkpoint("torch.utils.checkpoint.checkpoint", "checkpoint")
    module = sys.modules["torch.utils.checkpoint"]
    probe.patches.replace(
        module, "checkpoint", lambda original: observed(probe, original, family, CheckpointParameters(original))
    )
