"""Loss scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..context import Call, ThreadState
from ..devices import number
from .base import Named, observe

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder


class Scale(Named):
    """What the loss was before it was scaled."""

    trains = True

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        value = number(state, args[1]) if recorder.measures.wanted and len(args) > 1 else None
        if value is not None:
            recorder.measures.take(state, "scaler.unscaled", call, value)


class Unscale(Named):
    """The gradients that unscaling leaves."""

    trains = True

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        if recorder.sketches.wanted:
            recorder.sketches.gradients(state, call)


class Step(Named):
    """A step that is asked for; whether it is taken is left to the scaler."""

    trains = True

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        self._before = recorder.limit.steps_in_all if recorder.limit is not None else 0

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        limit = recorder.limit
        if limit is not None and limit.steps_in_all == self._before and len(args) > 1:
            limit.stepped(recorder.optimizers.number(args[1]))


_KINDS = {"scale": Scale, "unscale_": Unscale, "step": Step}


def install(probe: Probe) -> None:
    """Observe the methods of `torch.amp.GradScaler`; the one of `torch.cuda.amp` inherits them."""
    for name in ("scale", "unscale_", "step", "update"):
        family = _KINDS.get(name, Named)(f"torch.amp.GradScaler.{name}", "scaler", method=True)
        observe(probe, getattr(torch.amp.GradScaler, name), family)
