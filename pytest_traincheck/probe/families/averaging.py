"""Averaged copies of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.optim import swa_utils

from ..context import Call, ThreadState
from .base import Named, observe

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


def install(probe: Probe) -> None:
    """Observe the method."""
    family = Update("torch.optim.swa_utils.AveragedModel.update_parameters", "update", method=True)
    observe(probe, swa_utils.AveragedModel.update_parameters, family)
