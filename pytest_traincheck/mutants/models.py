"""Mistakes with the state of a model: how it begins, what is tied, restored and averaged."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.swa_utils import AveragedModel

from .mutation import Mutation, plants
from .patching import Function, around_optimizer_steps, is_own_call, replace

_INITIALISERS = (
    "kaiming_uniform_",
    "kaiming_normal_",
    "xavier_uniform_",
    "xavier_normal_",
    "trunc_normal_",
    "normal_",
    "uniform_",
    "orthogonal_",
)


def _on_first_weight(mutation: Mutation, spoil: Callable[[torch.Tensor], object]) -> None:
    """`spoil` the first weight after each of its initialisations: a model often replaces that of its layers."""
    first: list[torch.Tensor] = []

    def make(original: Function) -> Function:
        def initialise(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            result = original(tensor, *args, **kwargs)
            if not first and isinstance(tensor, torch.nn.Parameter) and tensor.dim() > 1 and not tensor.is_meta:
                first.append(tensor)
            if first and tensor is first[0] and mutation.here():
                with torch.no_grad():
                    spoil(tensor)
            return result

        return initialise

    for name in _INITIALISERS:
        replace(torch.nn.init, name, make)


@plants("initialisation-scaled")
def _initialisation_scaled(mutation: Mutation) -> None:
    _on_first_weight(mutation, lambda tensor: tensor.mul_(3.0))


@plants("initialisation-skipped")
def _initialisation_skipped(mutation: Mutation) -> None:
    _on_first_weight(mutation, lambda tensor: tensor.zero_())


@plants("initialisation-constant")
def _initialisation_constant(mutation: Mutation) -> None:
    _on_first_weight(mutation, lambda tensor: tensor.fill_(float(tensor.abs().mean())))


@plants("initialisation-drawn-anew")
def _initialisation_drawn_anew(mutation: Mutation) -> None:
    def draw(tensor: torch.Tensor) -> None:
        most = float(tensor.abs().max())
        tensor.uniform_(-most, most)

    _on_first_weight(mutation, draw)


@plants("tied-weights-broken")
def _tied_weights_broken(mutation: Mutation) -> None:
    holders: dict[int, tuple[weakref.ref[torch.nn.Module], str]] = {}

    def make(original: Function) -> Function:
        def __setattr__(self: torch.nn.Module, name: str, value: Any) -> None:
            if isinstance(value, torch.nn.Parameter):
                holder, held = holders.get(id(value), (lambda: None, ""))
                module = holder()
                tied = module is not None and module is not self and getattr(module, held, None) is value
                if tied and mutation.here():
                    value = torch.nn.Parameter(value.detach().clone(), requires_grad=value.requires_grad)
                elif not tied:
                    holders[id(value)] = (weakref.ref(self), name)
            original(self, name, value)

        return __setattr__

    replace(torch.nn.Module, "__setattr__", make)


@plants("model-not-restored")
def _model_not_restored(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
            if mutation.here():
                return torch.nn.modules.module._IncompatibleKeys([], [])
            return original(self, *args, **kwargs)

        return load_state_dict

    replace(torch.nn.Module, "load_state_dict", make)


@plants("optimizer-not-restored")
def _optimizer_not_restored(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> None:
            if not mutation.here():
                original(self, *args, **kwargs)

        return load_state_dict

    replace(torch.optim.Optimizer, "load_state_dict", make)


@plants("scheduler-not-restored")
def _scheduler_not_restored(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> None:
            if not mutation.here():
                original(self, *args, **kwargs)

        return load_state_dict

    replace(torch.optim.lr_scheduler.LRScheduler, "load_state_dict", make)


class _Trained:
    """What optimizers hold: tensors that are trained, and shapes that averages of them have."""

    def __init__(self) -> None:
        self.shapes: set[torch.Size] = set()
        self.tensors: dict[int, weakref.ref[torch.Tensor]] = {}
        self.stepping = 0
        around_optimizer_steps(self._step)

    def _step(self, optimizer: Any, step: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for group in optimizer.param_groups:
            for tensor in group["params"]:
                self.shapes.add(tensor.shape)
                self.tensors[id(tensor)] = weakref.ref(tensor)
        self.stepping += 1
        try:
            return step(*args, **kwargs)
        finally:
            self.stepping -= 1

    def may_average(self, tensor: torch.Tensor) -> bool:
        """Whether an assignment to `tensor` may be the update of an average: it is like a trained one, and none."""
        if self.stepping or tensor.shape not in self.shapes or tensor.dim() == 0:
            return False
        for known in self.tensors.values():
            trained = known()
            if trained is not None and (trained is tensor or trained.grad is tensor):
                return False
        return True


@plants("average-not-updated")
def _average_not_updated(mutation: Mutation) -> None:
    trained = _Trained()

    def make(original: Function) -> Function:
        def change(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            ours = not torch.is_grad_enabled() and is_own_call() and trained.may_average(self)
            return self if ours and mutation.here() else original(self, *args, **kwargs)

        return change

    def make_update(original: Function) -> Function:
        def update_parameters(self: Any, *args: Any, **kwargs: Any) -> None:
            if not mutation.here():
                original(self, *args, **kwargs)

        return update_parameters

    for name in ("mul_", "add_", "lerp_", "copy_"):
        replace(torch.Tensor, name, make)
    replace(AveragedModel, "update_parameters", make_update)
