# ruff: noqa: ARG005 - families share parameters; the lambdas are signatures that built-in functions lack
"""Torch functions that training code is made of: one canonical name for all spellings of the same thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from ..symbols import Api
from .base import Family, Parameters, observe
from .losses import Loss
from .torch_function import TorchFunction, WithContent

if TYPE_CHECKING:
    from ..install import Probe

FUNCTIONAL = (
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "feature_alpha_dropout",
    "batch_norm",
    "layer_norm",
    "group_norm",
    "instance_norm",
    "rms_norm",
    "local_response_norm",
    "normalize",
    "embedding",
    "embedding_bag",
    "linear",
    "bilinear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "scaled_dot_product_attention",
    "multi_head_attention_forward",
    "softmax",
    "log_softmax",
    "gumbel_softmax",
    "interpolate",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cross_entropy",
    "ctc_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
)

PRODUCTS = ("matmul", "bmm", "mm", "einsum", "addmm", "baddbmm")

_CHOICES: dict[str, Callable[..., Any]] = {
    "topk": lambda input, k, dim=-1, largest=True, sorted=True: ...,
    "sort": lambda input, dim=-1, descending=False, stable=False: ...,
    "argsort": lambda input, dim=-1, descending=False, stable=False: ...,
    "argmax": lambda input, dim=None, keepdim=False: ...,
    "argmin": lambda input, dim=None, keepdim=False: ...,
    "max": lambda input, dim=None, keepdim=False: ...,
    "min": lambda input, dim=None, keepdim=False: ...,
    "cumsum": lambda input, dim, dtype=None: ...,
}
"""Functions that choose along one dimension, and what they are given. What they choose may turn on the last digit, so
that calls of this type are compared with nothing.
"""

_SIGNATURES: dict[str, Callable[..., Any]] = {
    "linear": lambda input, weight, bias=None: ...,
    "bilinear": lambda input1, input2, weight, bias=None: ...,
    "scaled_dot_product_attention": (
        lambda query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False: ...
    ),
    "softmax": lambda input, dim=None, _stacklevel=3, dtype=None: ...,
    "log_softmax": lambda input, dim=None, _stacklevel=3, dtype=None: ...,
    "matmul": lambda input, other, *, out=None: ...,
    "bmm": lambda input, mat2, *, out=None: ...,
    "mm": lambda input, mat2, *, out=None: ...,
    "addmm": lambda input, mat1, mat2, *, beta=1, alpha=1, out=None: ...,
    "baddbmm": lambda input, batch1, batch2, *, beta=1, alpha=1, out=None: ...,
    "conv1d": lambda input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1: ...,
    "conv2d": lambda input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1: ...,
    "conv3d": lambda input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1: ...,
    "conv_transpose1d": (
        lambda input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1: ...
    ),
    "conv_transpose2d": (
        lambda input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1: ...
    ),
    "conv_transpose3d": (
        lambda input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1: ...
    ),
}
# `Tensor.softmax(dim, dtype)` and `torch.softmax(input, dim, dtype)` have no `_stacklevel`.
_SHORT: Callable[..., Any] = lambda input, dim, dtype=None: ...  # noqa: E731 - a signature, as those above
_MASKED_FILL: Callable[..., Any] = lambda input, mask, value: ...  # noqa: E731 - a signature, as those above
_TORCH_DROPOUT: Callable[..., Any] = lambda input, p, train: ...  # noqa: E731 - a signature, as those above


_CONTENTS = {"embedding": "input", "scaled_dot_product_attention": "attn_mask", "masked_fill": "mask"}
"""Arguments whose content says what a function does: indices and masks."""


def _family(name: str, api: Api) -> TorchFunction:
    if name in _CONTENTS:
        return WithContent(api, _CONTENTS[name])
    if name.endswith("_loss") or "cross_entropy" in name or name == "kl_div":
        return Loss(api)
    return TorchFunction(api)


def parameters_of(name: str, original: Callable[..., Any]) -> Parameters:
    """The parameters of a function of `torch.nn.functional`, whether or not it is a built-in."""
    return Parameters(_SIGNATURES.get(name, original))


def install(probe: Probe) -> None:
    """Observe the vocabulary of `torch.nn.functional`, `torch` and `torch.Tensor`."""
    for name in FUNCTIONAL:
        family = _family(name, Api(f"torch.nn.functional.{name}", "function", "torch"))
        signature = _SIGNATURES.get(name) if name not in ("softmax", "log_softmax") else None
        _observe(probe, F, name, family, signature)
        if name in ("softmax", "log_softmax"):
            _observe(probe, torch, name, family, _SHORT)
            _observe(probe, torch.Tensor, name, family, _SHORT)
        elif name == "dropout":
            _observe(probe, torch, name, family, _TORCH_DROPOUT)
    masking = _family("masked_fill", Api("torch.Tensor.masked_fill", "function", "torch"))
    for owner, name in ((torch, "masked_fill"), (torch.Tensor, "masked_fill"), (torch.Tensor, "masked_fill_")):
        _observe(probe, owner, name, masking, _MASKED_FILL)
    for name, signature in _CHOICES.items():
        choice = TorchFunction(Api(f"torch.{name}", "choice", "torch"))
        for owner in (torch, torch.Tensor):
            _observe(probe, owner, name, choice, signature)
    for name in PRODUCTS:
        family = TorchFunction(Api(f"torch.{name}", "function", "torch"))
        _observe(probe, torch, name, family, _SIGNATURES.get(name))
        if name in ("matmul", "bmm", "mm"):
            _observe(probe, torch.Tensor, name, family, _SIGNATURES[name])
        if name == "matmul":
            _observe(probe, torch.Tensor, "__matmul__", family, _SIGNATURES[name])


def _observe(probe: Probe, owner: Any, name: str, family: Family, signature: Callable[..., Any] | None) -> None:
    parameters = Parameters(signature) if signature is not None else None
    observe(probe, getattr(owner, name, None), family, parameters)
