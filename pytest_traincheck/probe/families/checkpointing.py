"""Activation checkpointing: how a part of the forward pass is run again in the backward pass."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..summary import key_of
from .base import Named, Parameters, observe

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
    """Observe the function."""
    family = Checkpoint("torch.utils.checkpoint.checkpoint", "checkpoint")
    function = sys.modules["torch.utils.checkpoint"].checkpoint
    observe(probe, function, family, CheckpointParameters(function))
