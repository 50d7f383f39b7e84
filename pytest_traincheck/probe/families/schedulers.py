"""Learning-rate schedulers: those of torch, and subclasses that have a `step` of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.optim import lr_scheduler

from ..context import Call, ThreadState
from ..symbols import Api
from .base import SCHEDULE, Family, observe, watch
from .optimizer import api_of

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder

_Scheduler: Any = lr_scheduler.LRScheduler


class SchedulerStep(Family):
    """Schedulers step others; only the outermost is recorded, and not the step inside a constructor."""

    method = True
    trains = True
    outermost = True
    part = SCHEDULE

    def api(self, recorder: Recorder, args: tuple[Any, ...]) -> Api | None:
        if getattr(args[0], "_is_initial", False):
            return None
        return api_of(type(args[0]), "step", "scheduler")

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        optimizer = getattr(args[0], "optimizer", None)
        if isinstance(optimizer, torch.optim.Optimizer):
            call.opt = recorder.optimizers.info(optimizer).id

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        optimizer = getattr(args[0], "optimizer", None)
        if isinstance(optimizer, torch.optim.Optimizer):
            recorder.optimizers.note_rates(optimizer, recorder.emitter(state, call))


def install(probe: Probe) -> None:
    """Observe every `step` that torch defines, and `__init__` to meet the classes of others."""
    for cls in list(vars(lr_scheduler).values()):
        if isinstance(cls, type) and issubclass(cls, _Scheduler):
            _observe_steps(probe, cls)
    watch(
        probe, _Scheduler.__init__, lambda scheduler, *args, **named: _made(probe, scheduler, args, named), light=True
    )


def _made(probe: Probe, scheduler: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Meet the class of a scheduler, and note the optimizer that it is made for."""
    _observe_steps(probe, type(scheduler))
    optimizer, recorder = args[0] if args else named.get("optimizer"), probe.recorder
    if recorder is not None and recorder.measures.wanted and isinstance(optimizer, torch.optim.Optimizer):
        number = recorder.optimizers.info(optimizer).id
        recorder.measures.take(recorder.threads, "scheduler.made", None, opt=number)


def _observe_steps(probe: Probe, cls: type) -> None:
    for owner in cls.__mro__:
        if issubclass(owner, _Scheduler) and "step" in vars(owner):
            observe(probe, vars(owner)["step"], SchedulerStep())
