"""Functions that draw random numbers: in which order, how many, and which memory they fill.

They leave no call row, only sketches and counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .base import dressed, is_compiling

if TYPE_CHECKING:
    from ..install import Probe

_FUNCTIONS = (
    "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal", "bernoulli",
    "multinomial", "poisson",
)  # fmt: skip
_METHODS = (
    "uniform_", "normal_", "bernoulli_", "random_", "exponential_", "log_normal_", "cauchy_", "geometric_",
    "bernoulli", "multinomial",
)  # fmt: skip


def install(probe: Probe) -> None:
    """Wrap the functions of `torch` and the methods of `torch.Tensor`."""
    for name in _FUNCTIONS:
        probe.patches.replace(torch, name, _Drawing(probe, name))
    for name in _METHODS:
        probe.patches.replace(torch.Tensor, name, _Drawing(probe, name), alias=False)


class _Drawing:
    """Makes the wrapper of one function."""

    def __init__(self, probe: Probe, name: str) -> None:
        self._probe = probe
        self._name = name

    def __call__(self, original: Callable[..., Any]) -> Callable[..., Any]:
        return _drawing(self._probe, original, self._name)


def _drawing(probe: Probe, original: Callable[..., Any], name: str) -> Callable[..., Any]:
    in_place = name.endswith("_")

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        recorder = probe.recorder
        if recorder is None or recorder.threads.busy:
            return original(*args, **kwargs)
        sketched, filling = recorder.sketches.wanted, in_place and recorder.measures.early
        if not (sketched or filling):
            return original(*args, **kwargs)
        result = original(*args, **kwargs)
        state = recorder.threads
        try:
            call = state.stack[-1] if state.stack else None
            if sketched:
                recorder.sketches.drawn(state, name, call, kwargs.get("generator"), result)
            # An initializer of `torch.nn.init` draws as well, and is counted already.
            if filling and (call is None or call.api.type != "init") and isinstance(result, torch.Tensor):
                recorder.measures.filled(result)
        except Exception as error:  # noqa: BLE001 - a failure of the probe must never reach the user's code
            state.busy = False
            recorder.failed(f"after {name}", error)
        return result

    return dressed(wrapper, original)
