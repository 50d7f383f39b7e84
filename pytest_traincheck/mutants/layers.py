"""Mistakes inside the model: dropout, normalisation, masks, activations."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.modules.batchnorm import _NormBase

from .mutation import Mutation, plants
from .patching import Entries, Function, bound, replace

_DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")


@plants("dropout-off")
def _dropout_off(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def dropout(*args: Any, **kwargs: Any) -> Any:
            found = bound(original, args, kwargs)
            if found is None or not (found.arguments["training"] and found.arguments["p"]) or not mutation.here():
                return original(*args, **kwargs)
            found.arguments["p"] = 0.0
            return original(*found.args, **found.kwargs)

        return dropout

    def make_attention(original: Function) -> Function:
        def attention(*args: Any, **kwargs: Any) -> Any:
            if kwargs.get("dropout_p") and mutation.here():
                kwargs = {**kwargs, "dropout_p": 0.0}
            return original(*args, **kwargs)

        return attention

    for name in _DROPOUTS:
        replace(F, name, make)
    replace(F, "scaled_dot_product_attention", make_attention)


@plants("dropout-in-evaluation")
def _dropout_in_evaluation(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def dropout(*args: Any, **kwargs: Any) -> Any:
            found = bound(original, args, kwargs)
            if found is None or found.arguments["training"] or not found.arguments["p"] or not mutation.here():
                return original(*args, **kwargs)
            found.arguments["training"] = True
            return original(*found.args, **found.kwargs)

        return dropout

    for name in _DROPOUTS:
        replace(F, name, make)


@plants("batch-norm-momentum-changed")
def _batch_norm_momentum_changed(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            if self.track_running_stats and self.momentum and mutation.here():
                self.momentum = 1.0 - self.momentum

        return __init__

    replace(_NormBase, "__init__", make)


@plants("batch-norm-frozen")
def _batch_norm_frozen(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            if self.training and self.track_running_stats and mutation.here():
                self.eval()
            return original(self, *args, **kwargs)

        return forward

    for cls in (torch.nn.modules.batchnorm._BatchNorm, torch.nn.SyncBatchNorm):
        replace(cls, "forward", make)


@plants("attention-mask-dropped")
def _attention_mask_dropped(mutation: Mutation) -> None:
    def made(names: tuple[str, ...]) -> Any:
        def make(original: Function) -> Function:
            def attention(*args: Any, **kwargs: Any) -> Any:
                found = _masked(original, args, kwargs, names)
                if found is None or not mutation.here():
                    return original(*args, **kwargs)
                return original(*found[0], **found[1])

            return attention

        return make

    replace(F, "scaled_dot_product_attention", made(("attn_mask", "is_causal")))
    replace(F, "multi_head_attention_forward", made(("key_padding_mask", "attn_mask", "is_causal")))


_POSITIONS = {"attn_mask": 3}
"""Of `scaled_dot_product_attention`, which has no signature; the other function is called by names."""


def _masked(
    function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], names: tuple[str, ...]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments without their masks; None where there is none."""
    without = {name: value for name, value in kwargs.items() if name not in names or value is None}
    found = len(without) < len(kwargs) and any(kwargs[name] is not False for name in kwargs if name not in without)
    if function.__name__ == "scaled_dot_product_attention" and len(args) > _POSITIONS["attn_mask"]:
        found = found or args[_POSITIONS["attn_mask"]] is not None
        args = args[: _POSITIONS["attn_mask"]]
    return (args, without) if found else None


@plants("masked-fill-skipped")
def _masked_fill_skipped(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def masked_fill(self: Any, mask: Any, value: Any) -> Any:
            if isinstance(mask, torch.Tensor) and self.requires_grad and mutation.here():
                mask = torch.zeros_like(mask)
            return original(self, mask, value)

        return masked_fill

    for owner, name in ((torch, "masked_fill"), (torch.Tensor, "masked_fill"), (torch.Tensor, "masked_fill_")):
        replace(owner, name, make)


@plants("activation-dropped")
def _activation_dropped(mutation: Mutation) -> None:
    first: list[int] = []

    def make(original: Function) -> Function:
        def forward(self: torch.nn.Module, given: Any) -> Any:
            if not first:
                first.append(id(self))
            # Only one of several: a model without any would be another model.
            if first[0] == id(self) and mutation.here():
                return given
            return original(self, given)

        return forward

    for cls in (torch.nn.ReLU, torch.nn.GELU, torch.nn.SiLU, torch.nn.Tanh, torch.nn.LeakyReLU, torch.nn.ELU):
        replace(cls, "forward", make)


@plants("norm-eps-changed")
def _norm_eps_changed(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            if getattr(self, "eps", None) and mutation.here():
                self.eps = self.eps * 1000

        return __init__

    for cls in (torch.nn.LayerNorm, torch.nn.GroupNorm, _NormBase):
        replace(cls, "__init__", make)


@plants("inputs-not-normalised")
def _inputs_not_normalised(mutation: Mutation) -> None:
    def behave(module: torch.nn.Module, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        data = next((value for value in args if isinstance(value, torch.Tensor) and _is_data(value)), None)
        if data is None or not torch.is_grad_enabled() or not mutation.here():
            return call(*args, **kwargs)
        return call(*(value * 10 if value is data else value for value in args), **kwargs)

    Entries(behave)


def _is_data(value: torch.Tensor) -> bool:
    return value.is_floating_point() and not value.requires_grad and value.dim() > 1
