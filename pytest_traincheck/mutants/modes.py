"""Mistakes with the modes of a model: training, evaluation, recording of gradients."""

from __future__ import annotations

from typing import Any

import torch

from .mutation import Mutation, plants
from .patching import Entries, Function, replace


@plants("left-in-eval")
def _left_in_eval(mutation: Mutation) -> None:
    running: list[torch.nn.Module] = []

    def make(original: Function) -> Function:
        def train(self: torch.nn.Module, mode: bool = True) -> Any:
            # Only the outermost call is the user's; it goes down through the children.
            if mode and not self.training and not running and mutation.here():
                return self
            running.append(self)
            try:
                return original(self, mode)
            finally:
                running.pop()

        return train

    replace(torch.nn.Module, "train", make)


@plants("trained-in-eval")
def _trained_in_eval(mutation: Mutation) -> None:
    def behave(module: torch.nn.Module, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        trains = torch.is_grad_enabled() and any(item.requires_grad for item in module.parameters())
        if trains and module.training and mutation.here():
            module.eval()
        return call(*args, **kwargs)

    Entries(behave)


@plants("evaluated-in-train-mode")
def _evaluated_in_train_mode(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def evaluate(self: torch.nn.Module) -> Any:
            if self.training and mutation.here():
                return self
            return original(self)

        return evaluate

    replace(torch.nn.Module, "eval", make)


@plants("evaluated-with-gradients")
def _evaluated_with_gradients(mutation: Mutation) -> None:
    def behave(module: torch.nn.Module, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if torch.is_grad_enabled() or torch.is_inference_mode_enabled() or not _records(module) or not mutation.here():
            return call(*args, **kwargs)
        with torch.enable_grad():
            return call(*args, **kwargs)

    Entries(behave)


def _records(module: torch.nn.Module) -> bool:
    return any(item.requires_grad for item in module.parameters())
