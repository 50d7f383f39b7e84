"""Averaged copies of a model, and the running statistics that are estimated for them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from torch.optim import swa_utils

from ..context import Call, ThreadState
from .base import Named, Parameters, observe

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder


class Update(Named):
    """`AveragedModel.update_parameters` moves the copy."""

    trains = True

    def before(self, recorder: Recorder, state: ThreadState, args: tuple[Any, ...]) -> None:
        recorder.before_entry(state)

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        recorder.look(state, call, values=True)


class NoParameters(Parameters):
    """Which loader and which model it is given is nothing to compare."""

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return {}


class Estimate(Named):
    """`update_bn` calls a model in train mode without gradients, and evaluates nothing by that."""

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return ()


def install(probe: Probe) -> None:
    """Observe the method, and the function below its `no_grad`."""
    family = Update("torch.optim.swa_utils.AveragedModel.update_parameters", "update", method=True)
    observe(probe, swa_utils.AveragedModel.update_parameters, family)
    estimate: Any = inspect.unwrap(swa_utils.update_bn)
    observe(probe, estimate, Estimate("torch.optim.swa_utils.update_bn", "statistics"), NoParameters(estimate))
