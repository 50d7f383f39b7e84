"""Loss scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..context import Call, ThreadState
from ..digest import number
from .base import Named, observe

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder


class Scale(Named):
    """What the loss was before it was scaled."""

    trains = True

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        value = number(args[1]) if recorder.measures.wanted and len(args) > 1 else None
        if value is not None:
            recorder.measures.take(state, "scaler.unscaled", call, value)


class Unscale(Named):
    """The gradients that unscaling leaves."""

    trains = True

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        if recorder.sketches.wanted:
            recorder.sketches.gradients(state, call)


_KINDS = {"scale": Scale, "unscale_": Unscale}


def install(probe: Probe) -> None:
    """Observe the methods of `torch.amp.GradScaler`; the one of `torch.cuda.amp` inherits them."""
    for name in ("scale", "unscale_", "step", "update"):
        family = _KINDS.get(name, Named)(f"torch.amp.GradScaler.{name}", "scaler", method=True)
        observe(probe, getattr(torch.amp.GradScaler, name), family)
