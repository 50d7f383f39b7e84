"""Mistakes with losses: another reduction, targets that do not belong, an activation too many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from .mutation import Mutation, plants
from .patching import Function, bound, replace

LOSSES = (
    "cross_entropy",
    "nll_loss",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "kl_div",
    "gaussian_nll_loss",
    "poisson_nll_loss",
    "soft_margin_loss",
)

Given = dict[str, Any]
"""The arguments of a loss by name."""


def _on_losses(applies: Callable[[str, Given], bool], mutation: Mutation, change: Callable[[str, Given], None]) -> None:
    """Let `change` edit the arguments of the losses that are trained on, where `applies`."""

    def made(name: str) -> Callable[[Function], Function]:
        def make(original: Function) -> Function:
            def loss(*args: Any, **kwargs: Any) -> Any:
                found = bound(original, args, kwargs)
                given = found.arguments if found is not None else {}
                trained = isinstance(given.get("input"), torch.Tensor) and given["input"].requires_grad
                if found is None or not trained or not applies(name, given) or not mutation.here():
                    return original(*args, **kwargs)
                change(name, given)
                return original(*found.args, **found.kwargs)

            return loss

        return make

    for name in LOSSES:
        replace(F, name, made(name))


@plants("loss-summed")
def _loss_summed(mutation: Mutation) -> None:
    def applies(name: str, given: Given) -> bool:
        return given.get("reduction") == "mean"

    def change(name: str, given: Given) -> None:
        given["reduction"] = "sum"

    _on_losses(applies, mutation, change)


@plants("loss-averaged")
def _loss_averaged(mutation: Mutation) -> None:
    def applies(name: str, given: Given) -> bool:
        return given.get("reduction") == "sum"

    def change(name: str, given: Given) -> None:
        given["reduction"] = "mean"

    _on_losses(applies, mutation, change)


@plants("targets-shifted")
def _targets_shifted(mutation: Mutation) -> None:
    def applies(name: str, given: Given) -> bool:
        target = given.get("target")
        return isinstance(target, torch.Tensor) and target.dim() > 0 and target.shape[_axis(target)] > 1

    def change(name: str, given: Given) -> None:
        target = given["target"]
        given["target"] = target.roll(1, dims=_axis(target))

    _on_losses(applies, mutation, change)


def _axis(target: torch.Tensor) -> int:
    """Positions of a sequence of whole numbers, otherwise the samples of the batch."""
    return 0 if target.is_floating_point() else target.dim() - 1


@plants("softmax-before-loss")
def _softmax_before_loss(mutation: Mutation) -> None:
    def applies(name: str, given: Given) -> bool:
        return name in ("cross_entropy", "binary_cross_entropy_with_logits") and given["input"].dim() > 0

    def change(name: str, given: Given) -> None:
        logits = given["input"]
        if name == "cross_entropy":
            given["input"] = logits.softmax(dim=1 if logits.dim() > 1 else 0)
        else:
            given["input"] = logits.sigmoid()

    _on_losses(applies, mutation, change)


@plants("label-smoothing-lost")
def _label_smoothing_lost(mutation: Mutation) -> None:
    def applies(name: str, given: Given) -> bool:
        return bool(given.get("label_smoothing"))

    def change(name: str, given: Given) -> None:
        given["label_smoothing"] = 0.0

    _on_losses(applies, mutation, change)


@plants("class-weights-lost")
def _class_weights_lost(mutation: Mutation) -> None:
    def applies(name: str, given: Given) -> bool:
        return given.get("weight") is not None or given.get("pos_weight") is not None

    def change(name: str, given: Given) -> None:
        for key in ("weight", "pos_weight"):
            if key in given:
                given[key] = None

    _on_losses(applies, mutation, change)


@plants("loss-of-half-the-batch")
def _loss_of_half_the_batch(mutation: Mutation) -> None:
    def applies(name: str, given: Given) -> bool:
        target = given.get("target")
        count = given["input"].shape[0] if given["input"].dim() > 0 else 0
        return count > 1 and isinstance(target, torch.Tensor) and target.dim() > 0 and target.shape[0] == count

    def change(name: str, given: Given) -> None:
        half = given["input"].shape[0] // 2
        for key in ("input", "target"):
            given[key] = given[key][:half]

    _on_losses(applies, mutation, change)
