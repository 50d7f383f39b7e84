"""Modules that stand around others and hand their calls on, as frameworks describe them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ..frameworks.description import Framework, Wrapper


class Wrappers:
    """The wrappers that are looked through in this process. The table is made once: looking one up is on the way of
    every module that is met.
    """

    __slots__ = ("_by_name",)

    def __init__(self, frameworks: Iterable[Framework]) -> None:
        self._by_name: dict[str, tuple[tuple[str, Wrapper], ...]] = {}
        for framework in frameworks:
            package = framework.name.partition(".")[0] + "."
            for wrapper in framework.wrappers:
                self._by_name[wrapper.name] = (*self._by_name.get(wrapper.name, ()), (package, wrapper))

    def of(self, cls: type) -> Wrapper | None:
        """What is known of a class of modules; `None` for every one that is no wrapper."""
        found = self._by_name.get(cls.__name__)
        if found is None:
            return None
        module = f"{cls.__module__}."
        return next((wrapper for package, wrapper in found if module.startswith(package)), None)

    def inner(self, module: torch.nn.Module) -> torch.nn.Module | None:
        """The module inside a wrapper; `None` for every other module."""
        wrapper = self.of(type(module))
        if wrapper is None:
            return None
        inner: Any = module.__dict__.get("_modules", {}).get(wrapper.inner)
        return inner if isinstance(inner, torch.nn.Module) else None

    def unwrap(self, module: torch.nn.Module) -> torch.nn.Module:
        """The user's module inside any number of wrappers."""
        inner = self.inner(module)
        while inner is not None:
            module, inner = inner, self.inner(inner)
        return module

    def walk(
        self, module: torch.nn.Module, path: str = "", above: tuple[int, ...] = ()
    ) -> Iterator[tuple[torch.nn.Module, str]]:
        """(module, qualified name) of a module and all below it, shared ones under each name, wrappers left out."""
        yield module, path
        for name, child in list(module._modules.items()):
            if child is None:
                continue
            inner = self.unwrap(child)
            if id(inner) not in above and inner is not module and is_plain(inner):
                yield from self.walk(inner, f"{path}.{name}" if path else name, (*above, id(module)))


def is_plain(module: torch.nn.Module) -> bool:
    """Whether parameters, buffers and children lie in ordinary dicts; those of scripted modules do not."""
    entries = module.__dict__
    return all(isinstance(entries.get(name), dict) for name in ("_modules", "_parameters", "_buffers"))
