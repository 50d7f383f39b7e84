"""Replacing functions of torch, and the places where many mistakes are made: steps, entry calls, own calls."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler

Function = Callable[..., Any]
Make = Callable[[Function], Function]

_MARK = "_traincheck_steps"


def replace(owner: Any, name: str, make: Make) -> None:
    """Put `make(original)` in the place of `owner.name`; nothing happens when there is no such attribute."""
    original = getattr(owner, name, None)
    if original is not None:
        setattr(owner, name, functools.wraps(original)(make(original)))


def replace_all(owners: tuple[Any, ...], name: str, make: Make) -> None:
    """The same for a function that several modules export: each keeps the same object as the others."""
    made: dict[int, Function] = {}
    for owner in owners:
        original = getattr(owner, name, None)
        if original is not None:
            if id(original) not in made:
                made[id(original)] = functools.wraps(original)(make(original))
            setattr(owner, name, made[id(original)])


def bound(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments | None:
    """The arguments of a call by name, defaults included; None when they do not fit."""
    try:
        found = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    found.apply_defaults()
    return found


def is_own_call(depth: int = 2) -> bool:
    """Whether the caller of the wrapper that asks is outside of torch, which uses many of its functions itself."""
    name = sys._getframe(depth).f_globals.get("__name__", "")
    return not (name == "torch" or name.startswith("torch."))


Step = Callable[[Any, Function, tuple[Any, ...], dict[str, Any]], Any]
"""What to do instead of `step(*args, **kwargs)` of an object: `(object, step, args, kwargs)`."""


def around_optimizer_steps(behave: Step) -> None:
    """`behave` in the place of every optimizer's `step`, also of classes that are defined later."""
    running: set[int] = set()

    def make(original: Function) -> Function:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            _wrap_step(type(self), behave, running)

        return __init__

    replace(torch.optim.Optimizer, "__init__", make)


def around_scheduler_steps(behave: Step, born: Callable[[Any], None] | None = None) -> None:
    """`behave` in the place of every learning-rate scheduler's `step`; the step inside a constructor stays.

    `born` is called with each scheduler that was made.
    """
    running: set[int] = set()

    def unless_initial(scheduler: Any, step: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if getattr(scheduler, "_is_initial", False):
            return step(*args, **kwargs)
        return behave(scheduler, step, args, kwargs)

    def make(original: Function) -> Function:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            _wrap_step(type(self), unless_initial, running)
            if born is not None:
                born(self)

        return __init__

    for cls in _all_subclasses(LRScheduler):
        if "__init__" in vars(cls) and cls.__module__.startswith("torch."):
            replace(cls, "__init__", make)


def _all_subclasses(cls: type) -> list[type]:
    found = [cls]
    other: type
    for other in cls.__subclasses__():
        found += [known for known in _all_subclasses(other) if known not in found]
    return found


def _wrap_step(cls: Any, behave: Step, running: set[int]) -> None:
    original = cls.step
    if getattr(original, _MARK, None) is behave or behave in getattr(original, _MARK, ()):
        return

    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if id(self) in running or (running and _is_scheduler(self)):
            return original(self, *args, **kwargs)
        running.add(id(self))
        try:
            return behave(self, functools.partial(original, self), args, kwargs)
        finally:
            running.discard(id(self))

    functools.update_wrapper(step, original)
    # Torch marks what it has wrapped for its hooks by `hooked`, which is among what was copied.
    setattr(step, _MARK, (behave, *getattr(original, _MARK, ())))
    cls.step = step


def _is_scheduler(thing: Any) -> bool:
    return isinstance(thing, LRScheduler)


class Entries:
    """Calls of a module that has parameters from outside of any other module."""

    def __init__(self, behave: Callable[[torch.nn.Module, Function, tuple[Any, ...], dict[str, Any]], Any]) -> None:
        self._depth = 0
        self._behave = behave
        replace(torch.nn.Module, "__call__", self._make)

    def _make(self, original: Function) -> Function:
        def __call__(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or self._depth or next(module.parameters(), None) is None:
                return original(module, *args, **kwargs)
            self._depth += 1
            try:
                return self._behave(module, functools.partial(original, module), args, kwargs)
            finally:
                self._depth -= 1

        return __call__
