"""Learning-rate schedulers: those of torch, and subclasses that have a `step` of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.optim import lr_scheduler

from ..context import Call, ThreadState
from ..symbols import Api
from .base import Family, dressed, is_compiling, observed
from .optimizer import api_of

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder

_Scheduler: Any = lr_scheduler.LRScheduler


class SchedulerStep(Family):
    """Schedulers step others; only the outermost is recorded, and not the step inside a constructor."""

    method = True
    outermost = True

    def api(self, recorder: Recorder, args: tuple[Any, ...]) -> Api | None:
        if getattr(args[0], "_is_initial", False):
            return None
        return api_of(type(args[0]), "step", "scheduler")

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        optimizer = getattr(args[0], "optimizer", None)
        if isinstance(optimizer, torch.optim.Optimizer):
            call.opt = recorder.optimizers.info(optimizer).id

    def after(
        self,
        recorder: Recorder,
        state: ThreadState,
        call: Call,
        args: tuple[Any, ...],
        result: Any,
    ) -> None:
        optimizer = getattr(args[0], "optimizer", None)
        if isinstance(optimizer, torch.optim.Optimizer):
            recorder.optimizers.note_rates(optimizer, recorder.emitter(state, call))


def install(probe: Probe) -> None:
    """Wrap every `step` that torch defines, and `__init__` to meet the classes of others."""
    for cls in list(vars(lr_scheduler).values()):
        if isinstance(cls, type) and issubclass(cls, _Scheduler):
            _wrap_steps(probe, cls)
    probe.patches.replace(_Scheduler, "__init__", lambda original: _meeting(probe, original), alias=False)


def _wrap_steps(probe: Probe, cls: type) -> None:
    for owner in cls.__mro__:
        if issubclass(owner, _Scheduler) and "step" in vars(owner):
            probe.patches.replace(
                owner, "step", lambda original: observed(probe, original, SchedulerStep()), alias=False
            )


def _meeting(probe: Probe, original: Any) -> Any:
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
        recorder = None if is_compiling() else probe.recorder
        if recorder is not None:
            try:
                _wrap_steps(probe, type(self))
            except Exception as error:  # noqa: BLE001 - a failure of the probe must never reach the user's code
                recorder.failed(f"wrapping {type(self).__name__}.step", error)
        original(self, *args, **kwargs)

    return dressed(wrapper, original)
