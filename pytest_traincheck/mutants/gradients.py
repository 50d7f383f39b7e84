"""Mistakes between the loss and the step: gradients that are kept, cut, scaled or clipped otherwise."""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.nn.utils.clip_grad
from torch.nn.modules.module import register_module_forward_hook

from .mutation import Mutation, plants
from .patching import Entries, Function, around_optimizer_steps, replace, replace_all

_CLIPPERS = (sys.modules["torch.nn.utils.clip_grad"], torch.nn.utils)


@plants("zero-grad-skipped")
def _zero_grad_skipped(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def zero_grad(self: Any, *args: Any, **kwargs: Any) -> None:
            if not mutation.here():
                original(self, *args, **kwargs)

        return zero_grad

    for owner in (torch.optim.Optimizer, torch.nn.Module):
        replace(owner, "zero_grad", make)


@plants("zero-grad-partial")
def _zero_grad_partial(mutation: Mutation) -> None:
    def of_optimizer(original: Function) -> Function:
        def zero_grad(self: Any, *args: Any, **kwargs: Any) -> None:
            held = [group["params"] for group in self.param_groups]
            kept = _first_with_gradient([item for params in held for item in params])
            if kept is None or not mutation.here():
                original(self, *args, **kwargs)
                return
            # What is cleared and put back would look like a new gradient: it must not be touched at all.
            for group, params in zip(self.param_groups, held, strict=True):
                group["params"] = [item for item in params if item is not kept]
            try:
                original(self, *args, **kwargs)
            finally:
                for group, params in zip(self.param_groups, held, strict=True):
                    group["params"] = params

        return zero_grad

    def of_module(original: Function) -> Function:
        def zero_grad(self: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
            kept = _first_with_gradient(list(self.parameters()))
            if kept is None or not mutation.here():
                original(self, *args, **kwargs)
                return
            for item in self.parameters():
                if item is not kept:
                    item.grad = None

        return zero_grad

    replace(torch.optim.Optimizer, "zero_grad", of_optimizer)
    replace(torch.nn.Module, "zero_grad", of_module)


def _first_with_gradient(tensors: list[torch.Tensor]) -> torch.Tensor | None:
    return next((item for item in tensors if item.grad is not None), None)


@plants("zero-grad-within-accumulation")
def _zero_grad_within_accumulation(mutation: Mutation) -> None:
    passes = [0]
    optimizers: list[Any] = []

    def behave(optimizer: Any, step: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        passes[0] = 0
        if optimizer not in optimizers:
            optimizers.append(optimizer)
        return step(*args, **kwargs)

    def make(original: Function) -> Function:
        def backward(*args: Any, **kwargs: Any) -> Any:
            passes[0] += 1
            if passes[0] > 1 and len(optimizers) == 1 and mutation.here():
                optimizers[0].zero_grad()
            return original(*args, **kwargs)

        return backward

    around_optimizer_steps(behave)
    replace(torch.Tensor, "backward", make)


@plants("accumulation-not-normalised")
def _accumulation_not_normalised(mutation: Mutation) -> None:
    state = {"passes": 0, "usual": 0, "optimizer": 0, "optimizers": 0}

    def behave(optimizer: Any, step: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if state["optimizer"] != id(optimizer):
            state["optimizer"] = id(optimizer)
            state["optimizers"] += 1
        state["usual"], state["passes"] = state["passes"], 0
        return step(*args, **kwargs)

    def make(original: Function) -> Function:
        def backward(self: torch.Tensor, gradient: Any = None, *args: Any, **kwargs: Any) -> Any:
            state["passes"] += 1
            # How many passes there are is known once a first step was made of them.
            several = state["usual"] > 1 and state["optimizers"] == 1 and gradient is None
            if several and mutation.here():
                return original(self * state["usual"], gradient, *args, **kwargs)
            return original(self, gradient, *args, **kwargs)

        return backward

    around_optimizer_steps(behave)
    replace(torch.Tensor, "backward", make)


@plants("loss-scaled")
def _loss_scaled(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def backward(self: torch.Tensor, gradient: Any = None, *args: Any, **kwargs: Any) -> Any:
            if gradient is None and mutation.here():
                return original(self * 0.1, gradient, *args, **kwargs)
            return original(self, gradient, *args, **kwargs)

        return backward

    replace(torch.Tensor, "backward", make)


@plants("backward-skipped")
def _backward_skipped(mutation: Mutation) -> None:
    calls = [0]

    def make(original: Function) -> Function:
        def backward(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            calls[0] += 1
            if calls[0] % 3 == 0 and mutation.here():
                return None
            return original(self, *args, **kwargs)

        return backward

    replace(torch.Tensor, "backward", make)


@plants("output-detached")
def _output_detached(mutation: Mutation) -> None:
    chosen: list[torch.nn.Module] = []

    def cut(module: torch.nn.Module, inputs: Any, output: Any) -> Any:
        if module is not chosen[0] or not (isinstance(output, torch.Tensor) and output.requires_grad):
            return None
        if not module.training:
            return None
        return output.detach() if mutation.here() else None

    def behave(module: torch.nn.Module, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not chosen and module.training and torch.is_grad_enabled():
            leaves = [part for part in module.modules() if next(part.children(), None) is None]
            trained = [part for part in leaves if any(item.requires_grad for item in part.parameters())]
            # With a single layer nothing would be left to train, which no script survives.
            if len(trained) > 1:
                chosen.append(trained[0])
                # A hook of its own would be part of the model: one that is pickled as a whole could not be saved.
                register_module_forward_hook(cut)
        return call(*args, **kwargs)

    Entries(behave)


def _on_clipping(behave: Any) -> None:
    """`behave(clip, args, kwargs)` in the place of the user's calls of `clip_grad_norm_`."""

    def make(original: Function) -> Function:
        return lambda *args, **kwargs: behave(original, args, kwargs)

    replace_all(_CLIPPERS, "clip_grad_norm_", make)


def _norm(parameters: Any) -> torch.Tensor:
    """What clipping returns, without clipping."""
    gradients = [item.grad for item in _listed(parameters) if item.grad is not None]
    if not gradients:
        return torch.tensor(0.0)
    norms = [torch.linalg.vector_norm(item.detach()) for item in gradients]
    total: torch.Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return total


def _listed(parameters: Any) -> list[torch.Tensor]:
    return [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)


@plants("clipping-dropped")
def _clipping_dropped(mutation: Mutation) -> None:
    def behave(clip: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not mutation.here():
            return clip(*args, **kwargs)
        return _norm(kwargs["parameters"] if "parameters" in kwargs else args[0])

    def make(original: Function) -> Function:
        return lambda *args, **kwargs: None if mutation.here() else original(*args, **kwargs)

    _on_clipping(behave)
    replace_all(_CLIPPERS, "clip_grad_value_", make)


@plants("clipping-times-ten")
def _clipping_times_ten(mutation: Mutation) -> None:
    def behave(clip: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if mutation.here():
            if "max_norm" in kwargs:
                kwargs = {**kwargs, "max_norm": kwargs["max_norm"] * 10}
            else:
                args = (args[0], args[1] * 10, *args[2:])
        return clip(*args, **kwargs)

    _on_clipping(behave)


@plants("clipping-by-another-norm")
def _clipping_by_another_norm(mutation: Mutation) -> None:
    def behave(clip: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if mutation.here():
            args, kwargs = (args[:2], kwargs) if len(args) > 2 else (args, kwargs)
            kwargs = {**kwargs, "norm_type": 1.0}
        return clip(*args, **kwargs)

    _on_clipping(behave)


@plants("clipping-before-backward")
def _clipping_before_backward(mutation: Mutation) -> None:
    waiting: list[tuple[Function, tuple[Any, ...], dict[str, Any]]] = []

    def behave(clip: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not mutation.here():
            return clip(*args, **kwargs)
        parameters = _listed(kwargs.pop("parameters") if "parameters" in kwargs else args[0])
        waiting[:] = [(clip, (parameters, *args[1:]), kwargs)]
        return _norm(parameters)

    def make(original: Function) -> Function:
        def backward(*args: Any, **kwargs: Any) -> Any:
            for clip, given, named in waiting:
                clip(*given, **named)
            return original(*args, **kwargs)

        return backward

    _on_clipping(behave)
    replace(torch.Tensor, "backward", make)


@plants("clipping-after-step")
def _clipping_after_step(mutation: Mutation) -> None:
    waiting: list[tuple[Function, tuple[Any, ...], dict[str, Any]]] = []

    def clipping(clip: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not mutation.here():
            return clip(*args, **kwargs)
        parameters = _listed(kwargs.pop("parameters") if "parameters" in kwargs else args[0])
        waiting.append((clip, (parameters, *args[1:]), kwargs))
        return _norm(parameters)

    def stepping(optimizer: Any, step: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = step(*args, **kwargs)
        while waiting:
            clip, given, named = waiting.pop(0)
            clip(*given, **named)
        return result

    _on_clipping(clipping)
    around_optimizer_steps(stepping)
