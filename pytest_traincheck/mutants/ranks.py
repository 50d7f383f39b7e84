"""Mistakes of one rank among several."""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.distributed as dist

from .mutation import Mutation, plants
from .patching import Function, Make, around_optimizer_steps, is_own_call, replace, replace_all


def _is_last_rank() -> bool:
    if not dist.is_available() or not dist.is_initialized():
        return False
    size = dist.get_world_size()
    return size > 1 and dist.get_rank() == size - 1


def _owners() -> tuple[Any, ...]:
    return (dist, sys.modules["torch.distributed.distributed_c10d"]) if dist.is_available() else ()


@plants("all-reduce-dropped-on-one-rank")
def _all_reduce_dropped(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def all_reduce(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            # The other ranks must not wait for ever: this one takes part, and does not use what it gets.
            if is_own_call() and _is_last_rank() and tensor.is_floating_point() and mutation.here():
                tensor = tensor.detach().clone()
            return original(tensor, *args, **kwargs)

        return all_reduce

    replace_all(_owners(), "all_reduce", make)


def _corrupting(mutation: Mutation) -> Make:
    """A collective that leaves the last rank with numbers that are a hundredth too large."""

    def make(original: Function) -> Function:
        def collective(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            ours = is_own_call() and _is_last_rank() and tensor.is_floating_point() and not kwargs.get("async_op")
            result = original(tensor, *args, **kwargs)
            if ours and mutation.here():
                with torch.no_grad():
                    tensor.mul_(1.01)
            return result

        return collective

    return make


@plants("all-reduce-corrupted-on-one-rank")
def _all_reduce_corrupted(mutation: Mutation) -> None:
    replace_all(_owners(), "all_reduce", _corrupting(mutation))


@plants("all-reduce-skipped")
def _all_reduce_skipped(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def all_reduce(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            several = dist.is_initialized() and dist.get_world_size() > 1 and not kwargs.get("async_op")
            if is_own_call() and several and tensor.is_floating_point() and mutation.here():
                return None
            return original(tensor, *args, **kwargs)

        return all_reduce

    replace_all(_owners(), "all_reduce", make)


@plants("broadcast-corrupted-on-one-rank")
def _broadcast_corrupted(mutation: Mutation) -> None:
    replace_all(_owners(), "broadcast", _corrupting(mutation))


@plants("ranks-begin-apart")
def _ranks_begin_apart(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def __init__(self: Any, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
            original(self, module, *args, **kwargs)
            parameter = next((item for item in module.parameters() if item.dim() > 1), None)
            if parameter is not None and _is_last_rank() and mutation.here():
                with torch.no_grad():
                    parameter.mul_(1.01)

        return __init__

    replace(torch.nn.parallel.DistributedDataParallel, "__init__", make)


@plants("raw-module-called")
def _raw_module_called(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            if torch.is_grad_enabled() and mutation.here():
                return self.module(*args, **kwargs)
            return original(self, *args, **kwargs)

        return __call__

    replace(torch.nn.parallel.DistributedDataParallel, "__call__", make)


@plants("no-sync-over-all")
def _no_sync_over_all(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            if torch.is_grad_enabled() and self.require_backward_grad_sync and mutation.here():
                with self.no_sync():
                    return original(self, *args, **kwargs)
            return original(self, *args, **kwargs)

        return __call__

    replace(torch.nn.parallel.DistributedDataParallel, "__call__", make)


@plants("clipping-on-one-rank")
def _clipping_on_one_rank(mutation: Mutation) -> None:
    def make(original: Function) -> Function:
        def clip_grad_norm_(*args: Any, **kwargs: Any) -> Any:
            if _is_last_rank() and mutation.here():
                return torch.tensor(0.0)
            return original(*args, **kwargs)

        return clip_grad_norm_

    owners = (sys.modules["torch.nn.utils.clip_grad"], torch.nn.utils)
    replace_all(owners, "clip_grad_norm_", make)


@plants("learning-rate-differs-on-one-rank")
def _learning_rate_differs(mutation: Mutation) -> None:
    seen: list[Any] = []

    def behave(optimizer: Any, step: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if _is_last_rank() and optimizer not in seen:
            seen.append(optimizer)
            if mutation.here():
                for group in optimizer.param_groups:
                    group["lr"] = group["lr"] * 2
        return step(*args, **kwargs)

    around_optimizer_steps(behave)
