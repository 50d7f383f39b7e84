"""Calls that put a module or an optimizer into another state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..context import Call, ThreadState
from ..sampling import RESUME
from ..symbols import Api
from .base import MODE, Named, observe
from .optimizer import api_of

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder


class Mode(Named):
    """`train`, `requires_grad_`, `to`, `load_state_dict` (`loading.py`): once for the module called, not for its
    children.
    """

    outermost = True

    def __init__(self, name: str) -> None:
        super().__init__(f"torch.nn.Module.{name}", "mode", method=True)

    def before(self, recorder: Recorder, state: ThreadState, args: tuple[Any, ...]) -> None:
        recorder.variables.refresh()

    def mod(self, recorder: Recorder, args: tuple[Any, ...]) -> int:
        return recorder.modules.mod(recorder.modules.info(args[0]))

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        recorder.look(state, call, values=True)


class Train(Mode):
    """`train` and `eval` change no variable."""

    rare = "mode"
    part = MODE

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.nested = self._api

    def is_rare(self, args: tuple[Any, ...]) -> bool:
        # Some loops call `train()` before every step.
        return bool(getattr(args[0], "training", None) is not self.parameters.argument(args, {}, "mode", True))

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        recorder.values_moved = True  # what follows is another phase, in which weights may have been exchanged


class OptimizerState(Named):
    """`Optimizer.load_state_dict`."""

    rare = RESUME

    def __init__(self) -> None:
        super().__init__("torch.optim.Optimizer.load_state_dict", "mode", method=True)

    def api(self, recorder: Recorder, args: tuple[Any, ...]) -> Api | None:
        return api_of(type(args[0]), "load_state_dict", "mode")

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        call.opt = recorder.optimizers.info(args[0]).id

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        recorder.variables.refresh()
        recorder.optimizers.note_groups(args[0], call.seq)
        recorder.optimizers.note_rates(args[0], recorder.emitter(state, call))


def install(probe: Probe) -> None:
    """Observe the methods of `torch.nn.Module` and `torch.optim.Optimizer`."""
    families = {"train": Train("train")} | {name: Mode(name) for name in ("requires_grad_", "to")}
    for name, family in families.items():
        observe(probe, getattr(torch.nn.Module, name), family)
    observe(probe, torch.optim.Optimizer.load_state_dict, OptimizerState())
