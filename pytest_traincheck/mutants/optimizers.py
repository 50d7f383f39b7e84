"""Mistakes with optimizers: steps that are missing, parameters that are not held, other hyper-parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from .mutation import Mutation, plants
from .patching import Function, around_optimizer_steps, replace

_Groups = list[dict[str, Any]]


@plants("step-every-second")
def _step_every_second(mutation: Mutation) -> None:
    taken: dict[int, int] = {}

    def behave(optimizer: Any, step: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        taken[id(optimizer)] = taken.get(id(optimizer), 0) + 1
        if taken[id(optimizer)] % 2 == 0 and mutation.here():
            return _closure_alone(args, kwargs)
        return step(*args, **kwargs)

    around_optimizer_steps(behave)


@plants("step-never")
def _step_never(mutation: Mutation) -> None:
    first: list[int] = []

    def behave(optimizer: Any, step: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        first.append(id(optimizer))
        # One optimizer of several is forgotten, the first that steps.
        if id(optimizer) == first[0] and mutation.here():
            return _closure_alone(args, kwargs)
        return step(*args, **kwargs)

    around_optimizer_steps(behave)


@plants("step-twice")
def _step_twice(mutation: Mutation) -> None:
    def behave(optimizer: Any, step: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = step(*args, **kwargs)
        if mutation.here():
            step(*args, **kwargs)
        return result

    around_optimizer_steps(behave)


@plants("optimizer-made-anew")
def _optimizer_made_anew(mutation: Mutation) -> None:
    def behave(optimizer: Any, step: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if optimizer.state and mutation.here():
            optimizer.state.clear()
        return step(*args, **kwargs)

    around_optimizer_steps(behave)


def _closure_alone(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a step returns that does nothing but what the user's closure does."""
    closure = kwargs.get("closure", args[0] if args else None)
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


@plants("parameter-left-out")
def _parameter_left_out(mutation: Mutation) -> None:
    def change(groups: _Groups) -> None:
        for group in groups:
            place = next((number for number, item in enumerate(group["params"]) if _tensor(item).dim() > 1), None)
            if place is not None and len(group["params"]) > 1:
                if mutation.here():
                    del group["params"][place]
                return

    _with_groups(change)


@plants("optimizer-of-copies")
def _optimizer_of_copies(mutation: Mutation) -> None:
    def change(groups: _Groups) -> None:
        if groups and mutation.here():
            for group in groups:
                group["params"] = [_copied(item) for item in group["params"]]

    _with_groups(change)


@plants("parameter-frozen")
def _parameter_frozen(mutation: Mutation) -> None:
    def change(groups: _Groups) -> None:
        tensors = [_tensor(item) for group in groups for item in group["params"]]
        chosen = [tensor for tensor in tensors if tensor.requires_grad and tensor.is_leaf]
        if len(chosen) > 1 and mutation.here():
            chosen[0].requires_grad_(False)

    _with_groups(change)


@plants("learning-rate-times-ten")
def _learning_rate(mutation: Mutation) -> None:
    _with_hyperparameters(mutation, "lr", lambda value: value * 10)


@plants("momentum-changed")
def _momentum(mutation: Mutation) -> None:
    _with_hyperparameters(mutation, "momentum", lambda value: value / 2)


@plants("betas-changed")
def _betas(mutation: Mutation) -> None:
    _with_hyperparameters(mutation, "betas", lambda value: (value[0] / 2, *value[1:]))


@plants("eps-changed")
def _eps(mutation: Mutation) -> None:
    _with_hyperparameters(mutation, "eps", lambda value: value * 1e4)


@plants("weight-decay-lost")
def _weight_decay_lost(mutation: Mutation) -> None:
    _with_hyperparameters(mutation, "weight_decay", lambda value: value * 0)


@plants("weight-decay-everywhere")
def _weight_decay_everywhere(mutation: Mutation) -> None:
    def change(groups: _Groups) -> None:
        decays = [group["weight_decay"] for group in groups if "weight_decay" in group]
        if len(set(decays)) > 1 and mutation.here():
            for group in groups:
                group["weight_decay"] = max(decays)

    _with_groups(change)


def _with_hyperparameters(mutation: Mutation, name: str, other: Callable[[Any], Any]) -> None:
    """Change one hyper-parameter of every group, wherever it is not zero."""

    def make(original: Function) -> Function:
        def __init__(self: Any, params: Any, defaults: dict[str, Any], *args: Any, **kwargs: Any) -> None:
            groups, plain = _as_groups(params)
            # Groups that name no value of their own have the optimizer's.
            places = [values for values in (defaults, *([] if plain else groups)) if _is_set(values.get(name))]
            if places and mutation.here():
                for values in places:
                    values[name] = other(values[name])
            original(self, _as_given(groups, plain), defaults, *args, **kwargs)

        return __init__

    replace(torch.optim.Optimizer, "__init__", make)


def _is_set(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return bool(value) and bool(value[0])
    return value is not None and not (isinstance(value, float) and math.isnan(value)) and bool(value)


def _with_groups(change: Callable[[_Groups], None]) -> None:
    """Let `change` edit the groups that an optimizer is made from."""

    def make(original: Function) -> Function:
        def __init__(self: Any, params: Any, defaults: dict[str, Any], *args: Any, **kwargs: Any) -> None:
            groups, plain = _as_groups(params)
            change(groups)
            original(self, _as_given(groups, plain), defaults, *args, **kwargs)

        return __init__

    replace(torch.optim.Optimizer, "__init__", make)


def _as_groups(params: Iterable[Any]) -> tuple[_Groups, bool]:
    """The groups as fresh dictionaries, and whether only parameters were given. A lone tensor is torch's to refuse."""
    if isinstance(params, torch.Tensor):
        return [], True
    items = list(params)
    if items and isinstance(items[0], dict):
        return [{**group, "params": _listed(group["params"])} for group in items], False
    return ([{"params": items}] if items else []), True


def _as_given(groups: _Groups, plain: bool) -> Any:
    return (groups[0]["params"] if groups else []) if plain else groups


def _listed(params: Any) -> list[Any]:
    return [params] if isinstance(params, torch.Tensor) else list(params)


def _tensor(item: Any) -> torch.Tensor:
    """Parameters may come with their names."""
    tensor: torch.Tensor = item[1] if isinstance(item, tuple) else item
    return tensor


def _copied(item: Any) -> Any:
    tensor = _tensor(item)
    copy = torch.nn.Parameter(tensor.detach().clone(), requires_grad=tensor.requires_grad)
    return (item[0], copy) if isinstance(item, tuple) else copy
