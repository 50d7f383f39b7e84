"""Functions that draw random numbers: in which order, how many, and which memory they fill.

They leave no call row, only sketches and counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .base import MEASURED, watch

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder

_FUNCTIONS = (
    "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal", "bernoulli",
    "multinomial", "poisson",
)  # fmt: skip
_METHODS = (
    "uniform_", "normal_", "bernoulli_", "random_", "exponential_", "log_normal_", "cauchy_", "geometric_",
    "bernoulli", "multinomial",
)  # fmt: skip


def install(probe: Probe) -> None:
    """Observe the functions of `torch` and the methods of `torch.Tensor`."""
    for owner, names in ((torch, _FUNCTIONS), (torch.Tensor, _METHODS)):
        for name in names:
            _observe(probe, getattr(owner, name), name)


def _observe(probe: Probe, function: Any, name: str) -> None:
    in_place = name.endswith("_")

    def entered(*_: Any, generator: Any = None, **__: Any) -> Any:
        recorder = probe.recorder
        if recorder is None:
            return None
        measures = recorder.measures
        wanted = (
            recorder.sketches.wanted or (in_place and measures.early) or (generator is not None and measures.wanted)
        )
        return (generator,) if wanted else None

    def left(token: tuple[Any], result: Any) -> None:
        if probe.recorder is not None:
            _drawn(probe.recorder, name, token[0], result)

    watch(probe, function, entered, left, when=MEASURED)


def _drawn(recorder: Recorder, name: str, generator: Any, result: Any) -> None:
    state = recorder.threads
    call = state.stack[-1] if state.stack else None
    if recorder.sketches.wanted:
        recorder.sketches.drawn(state, name, call, generator, result)
    if generator is not None and recorder.measures.wanted and isinstance(result, torch.Tensor):
        recorder.measures.handed(result.numel())
    # An initializer of `torch.nn.init` draws as well, and is counted already.
    elsewhere = call is None or call.api.type != "init"
    if name.endswith("_") and recorder.measures.early and elsewhere and isinstance(result, torch.Tensor):
        recorder.measures.filled(result)
