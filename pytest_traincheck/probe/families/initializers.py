"""Initializers of `torch.nn.init`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..context import Call, ThreadState
from .base import Named, observe

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder


class Initializer(Named):
    """Initializers call each other; only the outermost is recorded."""

    outermost = True
    _held: Any = None

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        # What a new model begins with is no matter of the step in which it is made.
        self._held = recorder.measures.hold_draws(state)

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        recorder.measures.count_draws(state, self._held)
        if isinstance(result, torch.nn.Parameter):
            recorder.measures.initialised(result)


def install(probe: Probe) -> None:
    """Observe every public function that fills a tensor in place."""
    for name in list(vars(torch.nn.init)):
        if name.endswith("_") and not name.startswith("_") and callable(getattr(torch.nn.init, name)):
            family = Initializer(f"torch.nn.init.{name}", "init")
            observe(probe, getattr(torch.nn.init, name), family)
