"""Mistakes of mixed precision: autocast and gradient scaling."""

from __future__ import annotations

from typing import Any

import torch

from .mutation import Mutation, plants
from .patching import Function, replace

_AUTOCAST = torch.amp.autocast_mode.autocast
_SCALER = torch.amp.GradScaler


@plants("autocast-off")
def _autocast_off(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            if self._enabled and mutation.here():
                self._enabled = False

        return __init__

    replace(_AUTOCAST, "__init__", make)


@plants("autocast-in-another-dtype")
def _autocast_in_another_dtype(mutation: Mutation) -> None:
    others = {torch.bfloat16: torch.float16, torch.float16: torch.bfloat16}

    def make(original: Function) -> Function:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            if self._enabled and self.fast_dtype in others and mutation.here():
                self.fast_dtype = others[self.fast_dtype]

        return __init__

    replace(_AUTOCAST, "__init__", make)


@plants("scaler-skips-steps")
def _scaler_skips_steps(mutation: Mutation) -> None:
    calls = [0]

    def make(original: Function) -> Function:
        def _maybe_opt_step(self: Any, *args: Any, **kwargs: Any) -> Any:
            calls[0] += 1
            if calls[0] % 2 == 0 and mutation.here():
                return None
            return original(self, *args, **kwargs)

        return _maybe_opt_step

    # Where the scaler decides; a `step` that is left out altogether makes its `update` fail.
    replace(_SCALER, "_maybe_opt_step", make)


@plants("loss-not-scaled")
def _loss_not_scaled(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def scale(self: Any, outputs: Any) -> Any:
            scaled = original(self, outputs)  # the scaler sets itself up at the first call
            return outputs if self.is_enabled() and mutation.here() else scaled

        return scale

    replace(_SCALER, "scale", make)


@plants("scaler-never-updated")
def _scaler_never_updated(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def update(self: Any, *args: Any, **kwargs: Any) -> None:
            if not self.is_enabled() or not mutation.here():
                original(self, *args, **kwargs)
                return
            # Without this a second `step` would be refused, which is another mistake.
            self._per_optimizer_states.clear()

        return update

    replace(_SCALER, "update", make)


@plants("unscale-omitted")
def _unscale_omitted(mutation: Mutation) -> None:
    stepping = [False]

    def make_step(original: Function) -> Function:
        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            stepping[0] = True
            try:
                return original(self, *args, **kwargs)
            finally:
                stepping[0] = False

        return step

    def make_unscale(original: Function) -> Function:
        def unscale_(self: Any, *args: Any, **kwargs: Any) -> None:
            # A step unscales by itself what was not unscaled before.
            if stepping[0] or not self.is_enabled() or not mutation.here():
                original(self, *args, **kwargs)

        return unscale_

    replace(_SCALER, "step", make_step)
    replace(_SCALER, "unscale_", make_unscale)
