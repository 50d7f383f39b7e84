"""All functions that the probe observes in this process: for good, or with the function as it was for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import compress
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from .built_in import BuiltIn
from .core import native
from .in_place import Hooks, InPlace, NotObservable, forget_sources
from .switches import Switches


class Kind(NamedTuple):
    """How the hooks of a function are called.

    `own_frame`: from the function's own frame, with all its arguments by position; otherwise from its caller's, with
    the arguments as they were given. `packed`: with `self`, the tuple of the other arguments, and a dict or `None`.
    """

    own_frame: bool
    packed: bool


Making = Callable[[Kind], Hooks]


class Patches(Switches):
    """The functions that are observed. Identity, type, name and signature of each stay what they are."""

    def __init__(self) -> None:
        self._patches: dict[int, InPlace | BuiltIn] = {}
        self._always: set[int] = set()
        self._light: set[int] = set()
        self._sleeping: list[InPlace | BuiltIn] = []
        self._asleep = False
        self.hushed = False
        """Whether the functions are left alone for so short a time that their hooks are called and do nothing."""
        self.may_sleep = False
        """Whether `sleep` will be called: to be set before anything is observed."""
        self._suspended: list[InPlace | BuiltIn] = []
        self._depth = 0
        self._lock = threading.RLock()
        self.left_out: dict[str, str] = {}
        """Functions that cannot be observed in this process, by name, and why."""

    def observe(
        self, function: Any, making: Making, *, always: bool = False, light: bool = False, name: str = ""
    ) -> InPlace | BuiltIn | None:
        """Tell the hooks that `making` makes of every call of a function, whatever name it is called by.

        A function is observed once: nothing happens the second time, and for `None`. With `always` it is observed
        while the others are suspended, too, and with `light` while they sleep. `name` is what it is called where it
        cannot be observed.
        """
        if isinstance(function, (staticmethod, classmethod, MethodType)):
            function = function.__func__
        if function is None or id(function) in self._patches:
            return None
        patch: InPlace | BuiltIn
        try:
            if type(function) is FunctionType:
                patch = InPlace(function, self._told(making(Kind(own_frame=True, packed=False)), always or light))
            else:
                packed = hasattr(type(function), "__get__")
                patch = BuiltIn(function, self._told(making(Kind(own_frame=False, packed=packed)), always or light))
        except NotObservable as error:
            self.left_out[name or getattr(function, "__qualname__", repr(function))] = str(error)
            return None
        with self._lock:
            self._patches[id(function)] = patch
            if always:
                self._always.add(id(function))
            if light:
                self._light.add(id(function))
            if self._depth and not always:
                self._suspended.append(patch)
            else:
                patch.apply()
                if self._asleep and not always and not light and patch.restore():
                    self._sleeping.append(patch)
        return patch

    def _told(self, hooks: Hooks, awake: bool) -> Hooks:
        """The hooks of a function, which are hushed with the others unless they are always `awake`."""
        if awake or not self.may_sleep or native is None:
            return hooks
        return hooks._replace(enter=native.unless_hushed(self, hooks.enter))

    def replace(self, function: Any, hooks: Hooks) -> None:
        """Tell these hooks of every call of a function from now on, in place of those that were told so far. They are
        called from the function's own frame.
        """
        with self._lock:
            known = self._patches.pop(id(function), None)
            if known is not None:
                known.restore()
                for waiting in (self._sleeping, self._suspended):
                    if known in waiting:
                        waiting.remove(known)
        self.observe(function, lambda _: hooks, light=True)

    def installed(self) -> None:
        """All that is known at the start is observed: what was only needed for that is given back."""
        forget_sources()

    def remove(self) -> None:
        """Leave every function as it was."""
        with self._lock:
            for patch in self._patches.values():
                patch.restore()
            self._patches.clear()
            self._always.clear()
            self._light.clear()
            self._suspended.clear()
            self._sleeping.clear()
            self.hushed = False

    def suspend(self) -> None:
        """Leave the functions alone until `resume`: a compiler must see them as they are without us."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                patches = [patch for key, patch in self._patches.items() if key not in self._always]
                self._suspended = [patch for patch in patches if patch.restore()]

    def resume(self) -> None:
        """Undo `suspend`."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                for patch in self._suspended:
                    patch.apply()
                self._suspended = []

    def sleep(self, brief: bool = False) -> None:
        """Leave all but the light functions alone until `wake`: nobody wants to know of them for a while. A function
        that is given back its code is a new one to the interpreter, and for some fifty calls a slow one; for a `brief`
        while it keeps the code that tells of its calls, and nobody listens.
        """
        with self._lock:
            self._asleep = True
            if brief and self.may_sleep and native is not None:
                self.hushed = True
                return
            kept = self._always | self._light
            patches = [patch for key, patch in self._patches.items() if key not in kept]
            if native is None:
                self._sleeping = [patch for patch in patches if patch.restore()]
            else:
                self._sleeping = list(compress(patches, native.exchange([patch.plan for patch in patches], False)))

    def wake(self) -> None:
        """Undo `sleep`."""
        with self._lock:
            self._asleep = self.hushed = False
            sleeping, self._sleeping = self._sleeping, []
            if self._depth:
                self._suspended.extend(sleeping)
                return
            if native is None:
                for patch in sleeping:
                    patch.apply()
            else:
                native.exchange([patch.plan for patch in sleeping], True)

    def forked(self) -> None:
        """In a forked child: another thread of the parent may have held the lock."""
        self._lock = threading.RLock()

    @property
    def suspended(self) -> bool:
        return self._depth > 0 or self._asleep
