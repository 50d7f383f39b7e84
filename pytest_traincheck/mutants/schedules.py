"""Mistakes with learning-rate schedulers."""

from __future__ import annotations

from typing import Any

from torch.optim.lr_scheduler import ReduceLROnPlateau

from .mutation import Mutation, plants
from .patching import Function, around_optimizer_steps, around_scheduler_steps


@plants("scheduler-skipped")
def _scheduler_skipped(mutation: Mutation) -> None:
    def behave(scheduler: Any, step: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return None if mutation.here() else step(*args, **kwargs)

    around_scheduler_steps(behave)


@plants("scheduler-twice")
def _scheduler_twice(mutation: Mutation) -> None:
    def behave(scheduler: Any, step: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if mutation.here():
            step(*args, **kwargs)
        return step(*args, **kwargs)

    around_scheduler_steps(behave)


@plants("scheduler-every-second")
def _scheduler_every_second(mutation: Mutation) -> None:
    calls = [0]

    def behave(scheduler: Any, step: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        calls[0] += 1
        return None if calls[0] % 2 == 0 and mutation.here() else step(*args, **kwargs)

    around_scheduler_steps(behave)


@plants("scheduler-before-optimizer")
def _scheduler_before_optimizer(mutation: Mutation) -> None:
    due: dict[int, Any] = {}
    """The scheduler that is stepped before the next step of an optimizer, by the optimizer's id."""
    moved = [False]

    def born(scheduler: Any) -> None:
        # A scheduler of schedulers is made last, and is the one that the loop steps. A plateau needs the loss first.
        if mutation.planned() and not isinstance(scheduler, ReduceLROnPlateau):
            due[id(scheduler.optimizer)] = scheduler

    def stepping(optimizer: Any, step: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        scheduler = due.pop(id(optimizer), None)
        if scheduler is not None:
            moved[0] = True
            scheduler.step()
            moved[0] = False
        return step(*args, **kwargs)

    def scheduling(scheduler: Any, step: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if moved[0] or isinstance(scheduler, ReduceLROnPlateau) or not mutation.here():
            return step(*args, **kwargs)
        due[id(scheduler.optimizer)] = scheduler
        return None

    around_scheduler_steps(scheduling, born)
    around_optimizer_steps(stepping)
