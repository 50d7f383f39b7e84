"""Run a callback right after a module was imported for the first time."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


class _Finder:
    """A `sys.meta_path` entry that finds nothing itself; it lets the others find and adds a callback to the loading."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[Callable[[], None]]] = {}
        self.searching: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self.waiting or name in self.searching:
            return None
        self.searching.add(name)
        try:
            spec = find_elsewhere(self, name, path, target)
        finally:
            self.searching.discard(name)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        self._watch_execution(name, spec.loader)
        return spec

    def _watch_execution(self, name: str, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            # The loader gets its own method back first: a module that asks its loader finds it untouched.
            del loader.exec_module
            execute(module)
            for callback in self.waiting.pop(name, []):
                callback()
            self.remove_if_idle()

        loader.exec_module = exec_module

    def remove_if_idle(self) -> None:
        """Leave `sys.meta_path` when nothing is waited for."""
        if not self.waiting and self in sys.meta_path:
            sys.meta_path.remove(self)


_finder = _Finder()


def find_elsewhere(
    finder: object, name: str, path: Sequence[str] | None, target: ModuleType | None
) -> importlib.machinery.ModuleSpec | None:
    """What the entries of `sys.meta_path` other than `finder` find."""
    for other in list(sys.meta_path):
        find_spec = getattr(other, "find_spec", None)
        if other is finder or find_spec is None:
            continue
        spec: importlib.machinery.ModuleSpec | None = find_spec(name, path, target)
        if spec is not None:
            return spec
    return None


def after_import(name: str, callback: Callable[[], None]) -> None:
    """Call `callback` once, right after module `name` finished executing; at once if that has happened already."""
    module = sys.modules.get(name)
    if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
        callback()
        return
    _finder.waiting.setdefault(name, []).append(callback)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def forget(callback: Callable[[], None]) -> None:
    """Undo `after_import` for a callback that has not been called."""
    for name, callbacks in list(_finder.waiting.items()):
        _finder.waiting[name] = [entry for entry in callbacks if entry is not callback]
        if not _finder.waiting[name]:
            del _finder.waiting[name]
    _finder.remove_if_idle()
