"""Replacing attributes of torch and putting the originals back, for good or for a while."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_ABSENT = object()

# Torch's tracers and tables compare functions by identity, so they keep the originals.
_SCANNED_TORCH = ("torch.nn", "torch.optim", "torch.utils.data", "torch.distributed", "torch.amp", "torch.cuda.amp")
_PRIVATE = ("_traincheck_probe", "_traincheck_mutants", __name__.rpartition(".")[0])


class _Patch:
    """One replaced attribute. `inherited` attributes are deleted to restore them."""

    __slots__ = ("active", "make", "name", "original", "owner", "replacement")

    def __init__(
        self, owner: Any, name: str, original: Any, replacement: Any, make: Callable[[Any], Any] | None = None
    ) -> None:
        self.owner = owner
        self.name = name
        self.original = original
        self.replacement = replacement
        self.make = make
        self.active = False

    def apply(self) -> None:
        setattr(self.owner, self.name, self.replacement)
        self.active = True

    def restore(self) -> bool:
        """Put the original back, unless someone has replaced our replacement since; true if it was put back."""
        if not self.active or vars(self.owner).get(self.name, _ABSENT) is not self.replacement:
            return False
        if self.original is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.original)
        self.active = False
        return True


class Patches:
    """All attributes that the probe has replaced in this process."""

    def __init__(self) -> None:
        self._patches: list[_Patch] = []
        self._permanent: list[_Patch] = []
        self._aliases: dict[int, tuple[Any, Any]] = {}
        self._wrappers: dict[int, tuple[Any, Any]] = {}
        self._scanned = 0
        self._suspended: list[_Patch] = []
        self._depth = 0
        self._lock = threading.RLock()

    def replace(
        self, owner: Any, name: str, make: Callable[[Any], Any], *, alias: bool = True, keep: bool = False
    ) -> None:
        """Replace `owner.name` by `make(original)`; nothing happens when there is no such attribute.

        With `alias`, modules that imported the original by name get the replacement too. With `keep`, the
        replacement stays while the others are suspended.
        """
        current = getattr(owner, name, None)
        if current is None or id(current) in self._wrappers:
            return
        known = self._aliases.get(id(current))
        replacement = known[1] if known is not None and known[0] is current else make(current)
        patch = _Patch(owner, name, vars(owner).get(name, _ABSENT), replacement, make)
        with self._lock:
            (self._permanent if keep else self._patches).append(patch)
            if alias:
                self._aliases[id(current)] = (current, replacement)
            self._wrappers[id(replacement)] = (replacement, current)
            if self._depth and not keep:
                self._suspended.insert(0, patch)
            else:
                patch.apply()

    def original(self, function: Any) -> Any:
        """What `function` replaced; `function` itself when it is none of ours."""
        known = self._wrappers.get(id(function))
        return known[1] if known is not None and known[0] is function else function

    def adopt_names(self) -> None:
        """Give modules that imported an original by name the replacement.

        Names that hold a replacement because they were imported later are noted, so that they are restored too.
        """
        with self._lock:
            self._scanned = len(sys.modules)
            noted = {(id(patch.owner), patch.name) for patch in (*self._patches, *self._permanent)}
            for module_name, module in list(sys.modules.items()):
                if not _is_scanned(module_name) or not isinstance(module, type(sys)):
                    continue
                for name, value in list(vars(module).items()):
                    key = id(value)
                    if key in self._aliases and self._aliases[key][0] is value:
                        original, replacement = self._aliases[key]
                    elif key in self._wrappers and self._wrappers[key][0] is value:
                        replacement, original = self._wrappers[key]
                    else:
                        continue
                    if (id(module), name) not in noted:
                        patch = _Patch(module, name, original, replacement)
                        patch.apply()
                        self._patches.append(patch)

    def remove(self) -> None:
        """Restore everything for good."""
        self.adopt_names()
        with self._lock:
            for patch in reversed((*self._patches, *self._permanent)):
                patch.restore()
            self._patches.clear()
            self._permanent.clear()
            self._suspended.clear()

    @contextmanager
    def pristine(self) -> Iterator[None]:
        """Inside the block torch is as it was without the probe. Nests; the innermost exit changes nothing."""
        self.suspend()
        try:
            yield
        finally:
            self.resume()

    def suspend(self, adopt: bool = True) -> None:
        """Put the originals back until `resume`; with `adopt`, in modules imported meanwhile as well."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                if adopt and len(sys.modules) != self._scanned:
                    self.adopt_names()
                self._suspended = [patch for patch in reversed(self._patches) if patch.restore()]

    def resume(self) -> None:
        """Undo `suspend`."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                for patch in reversed(self._suspended):
                    self._apply_again(patch)
                self._suspended = []

    def _apply_again(self, patch: _Patch) -> None:
        """Put a replacement back. Where somebody has replaced the original meanwhile, as dynamo does with
        `torch.nn.Module.__init__` in its first compilation, it is theirs that is wrapped from now on.
        """
        current = vars(patch.owner).get(patch.name, _ABSENT)
        if current is not patch.original:
            if patch.make is None or not inspect.isfunction(current):
                return
            patch.original, patch.replacement = current, patch.make(current)
            self._wrappers[id(patch.replacement)] = (patch.replacement, current)
        patch.apply()

    def forked(self) -> None:
        """In a forked child: another thread of the parent may have held the lock."""
        self._lock = threading.RLock()

    @property
    def suspended(self) -> bool:
        return self._depth > 0


def _is_scanned(module_name: str) -> bool:
    if module_name == "torch" or module_name.startswith("torch."):
        return module_name.startswith(_SCANNED_TORCH)
    return not module_name.startswith(_PRIVATE)
