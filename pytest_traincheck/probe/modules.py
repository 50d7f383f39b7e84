"""Live modules, without the user naming them: which are roots, and what everything below a root is called.

A root is a live module that holds parameters or buffers and is no child of another live module. Wrappers
(`wrappers.py`) are transparent: the wrapped module keeps the names that it has without the wrapper.
Nothing here keeps a module or a tensor alive.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection
from typing import Any

import torch

from ..frameworks.description import Wrapper
from .by_class import ByClass
from .core import native
from .names import class_name, library_of
from .switches import Switches
from .symbols import Api, Symbols
from .wrappers import Wrappers, is_plain


def _holds_tensors(module: torch.nn.Module) -> bool:
    # A loss registers its absent weights as buffers that are `None`.
    entries = (*module._parameters.values(), *module._buffers.values())
    return any(value is not None for value in entries)


def _entries(module: torch.nn.Module) -> int:
    """How many parameters, buffers and modules a module has itself."""
    entries = module.__dict__
    return len(entries["_parameters"]) + len(entries["_buffers"]) + len(entries["_modules"])


_Ref = weakref.ref[torch.nn.Module]


def _trained_plainly(cls: type) -> bool:
    asked = type.__getattribute__(cls, "__getattribute__")
    return asked is object.__getattribute__ and not any(
        "training" in type.__getattribute__(base, "__dict__") for base in type.__getattribute__(cls, "__mro__")
    )


def _nothing() -> None:
    """What is no module."""


def has_parameters(module: torch.nn.Module) -> bool:
    """Whether there are any in a module or below it. Its own method is somebody's, and may do something else."""
    pending = [module]
    seen: set[int] = set()
    while pending:
        entries = pending.pop().__dict__
        if any(each is not None for each in entries["_parameters"].values()):
            return True
        below = [each for each in entries["_modules"].values() if each is not None and id(each) not in seen]
        seen.update(map(id, below))
        pending += below
    return False


class Facts:
    """What is known about one live module, as far as the compiled core reads it."""

    __slots__ = ("api", "entries", "mod", "plain", "plainly_trained", "ref", "root", "told", "wrapper")


if native is not None:
    Facts = native.Facts  # type: ignore[misc]


class ModuleInfo(Facts):
    """What is known about one live module."""

    __slots__ = ("cls", "path", "tensors")

    def __init__(self, module: torch.nn.Module, ref: _Ref, wrapper: Wrapper | None) -> None:
        self.ref = ref
        self.cls = type(module)
        self.api: Api | None = None
        self.mod = 0
        self.root: Root | None = None
        self.path = ""
        self.wrapper = wrapper
        self.plainly_trained = False
        """Whether `training` is read from the module's own dictionary and nobody is asked for it."""
        self.entries = -1
        self.plain: dict[str, Any] = {}
        """How many entries the module had, and its plain attributes, when they were last looked at."""
        self.tensors: dict[str, str] = {}
        """Hashes of the tensors among its plain attributes."""
        self.told = 0
        """The `mod` of which these were written: a model that becomes part of another one has another."""


class Root:
    """A module whose parameters and buffers are tracked."""

    __slots__ = ("buffered", "id", "members", "name", "ref", "shape", "slots", "vars")

    def __init__(self, ref: Callable[[], torch.nn.Module | None], name: str, number: int) -> None:
        self.ref = ref
        self.name = name
        self.id = number
        self.members: list[_Ref] = []
        self.shape = -1
        self.buffered = False
        self.slots: list[Any] = []
        self.vars: dict[tuple[Any, ...], Any] = {}

    def current_shape(self) -> int:
        """A number that changes when a module of the tree gains or loses an entry. Cheap: looked at in every step."""
        if native is not None and (found := native.shape(self.members)) is not None:
            return int(found)
        total = 0
        for ref in self.members:
            module = ref()
            if module is None:
                return -2
            total += _entries(module)
        return total


class Modules(Switches):
    """Registry of live modules. `generation` grows whenever names may have changed."""

    def __init__(self, symbols: Symbols, known: list[torch.nn.Module], wrappers: Wrappers) -> None:
        self._symbols = symbols
        self.wrappers = wrappers
        self.wrapped: set[Wrapper] = set()
        """Kinds of wrappers that were met."""
        self._infos: dict[int, ModuleInfo] = {}
        self._pending: list[_Ref] = []
        self._roots: dict[int, Root] = {}
        self._empty: list[tuple[_Ref, int]] = []
        """Modules on their own that held no tensors, and how many entries they had: losses, and what is still being
        made.
        """
        self._ordinal = 0
        self._apis = ByClass[Api]()
        self._plainly_trained = ByClass[bool]()
        self.generation = 0
        for module in known:
            self.add(module)

    @property
    def infos(self) -> dict[int, ModuleInfo]:
        """What is known of modules, by `id`. It stays the same object."""
        return self._infos

    @property
    def roots(self) -> list[Root]:
        return list(self._roots.values())

    def live(self) -> list[torch.nn.Module]:
        """All live modules in the order of their creation."""
        return [module for info in list(self._infos.values()) if (module := info.ref()) is not None]

    def known(self) -> list[ModuleInfo]:
        """What is known of all modules, in the order of their creation; some may have died."""
        return list(self._infos.values())

    def add(self, module: torch.nn.Module) -> ModuleInfo:
        """Remember a module that was just made, or is seen for the first time."""
        key = id(module)
        known = self._infos.get(key)
        if known is not None and known.ref() is module:
            return known
        ref = weakref.ref(module)
        # An id comes again when a module has died, and a dictionary keeps a key where it was: the order of modules,
        # by which models are numbered, would be up to the allocator.
        self._infos.pop(key, None)
        info = self._infos[key] = ModuleInfo(module, ref, self.wrappers.of(type(module)))
        plainly = self._plainly_trained.get(info.cls)
        info.plainly_trained = (
            self._plainly_trained.put(info.cls, _trained_plainly(info.cls)) if plainly is None else plainly
        )
        if info.wrapper is not None:
            self.wrapped.add(info.wrapper)
        self._pending.append(ref)
        return info

    def info(self, module: torch.nn.Module) -> ModuleInfo:
        info = self._infos.get(id(module))
        if info is None or info.ref() is not module:
            info = self.add(module)
        return info

    def api(self, info: ModuleInfo) -> Api:
        api = info.api
        if api is None:
            api = self._apis.get(info.cls)
            if api is None:
                made = Api(class_name(info.cls), "module", library_of(info.cls.__module__))
                api = self._apis.put(info.cls, made)
            info.api = api
        return api

    def mod(self, info: ModuleInfo) -> int:
        """`mod` id of a module; a module outside every root is the root of its own kind."""
        if info.mod:
            return info.mod
        module = info.ref()
        target = info
        if info.wrapper and module is not None:
            target = self.info(self.wrappers.unwrap(module))
        root = target.root
        number = root.id if root is not None else self._bare_root(target)
        path = target.path if root is not None else ""
        info.mod = self._symbols.once("mod", {"root": number, "path": path, "class": self.api(info).name})
        return info.mod

    def _bare_root(self, info: ModuleInfo) -> int:
        fields = {"name": info.cls.__name__, "class": self.api(info).name, "library": self.api(info).library}
        return self._symbols.once("root", {**fields, "ordinal": -1})

    def without_inner(self) -> dict[str, str]:
        """Wrappers that hold no module where their description says, by their API, and what they lack."""
        found: dict[str, str] = {}
        for info in list(self._infos.values()):
            module = info.ref()
            if info.wrapper and module is not None and self.wrappers.inner(module) is None:
                found[self.api(info).name] = f"it is to be looked through and holds no module `{info.wrapper.inner}`"
        return found

    def refresh(self, among: Collection[Root] | None = None) -> bool:
        """Find roots and names again if modules appeared or a root (one of `among`) changed; true if so."""
        fresh = False
        if self._pending:
            pending, self._pending = self._pending, []
            fresh = any(ref() is not None for ref in pending)
        if not fresh:
            looked_at = list(self._roots.values()) if among is None else among
            fresh = any(root.current_shape() != root.shape for root in looked_at) or any(
                (module := ref()) is not None and _entries(module) != size for ref, size in self._empty
            )
        if fresh:
            self._rebuild()
        return fresh

    def _rebuild(self) -> None:
        self.generation += 1
        found = [(key, info, info.ref()) for key, info in list(self._infos.items())]
        # What has died is looked for here: a callback would run, and could be interrupted, wherever a module dies.
        for key, _, module in found:
            if module is None:
                del self._infos[key]
        live = [(info, module) for _, info, module in found if module is not None and is_plain(module)]
        children: set[int] = set()
        for info, module in live:
            if info.wrapper:
                continue
            for child in list(module._modules.values()):
                while child is not None:
                    children.add(id(child))
                    child = self.wrappers.inner(child)
        roots: dict[int, Root] = {}
        self._empty = []
        for info, module in live:
            if info.wrapper or id(module) in children:
                continue
            members = list(self.wrappers.walk(module))
            if not any(_holds_tensors(part) for part, _ in members):
                self._empty.append((info.ref, _entries(module)))
                continue
            known = self._roots.get(id(module))
            # A module that was made where another one has died is at the same address.
            root = known if known is not None and known.ref() is module else self._new_root(info)
            roots[id(module)] = root
            self._name_members(root, members)
        self._roots = roots

    def _new_root(self, info: ModuleInfo) -> Root:
        api = self.api(info)
        fields = {"name": info.cls.__name__, "class": api.name, "library": api.library, "ordinal": self._ordinal}
        self._ordinal += 1
        return Root(info.ref, info.cls.__name__, self._symbols.new("root", fields))

    def copy_root(self, root: Root) -> int:
        """Number of a root that stands for the copies of a model's parameters outside every module."""
        top = root.ref()
        info = self.info(top) if top is not None else None
        kind = self.api(info) if info is not None else None
        fields = {"class": kind.name if kind else root.name, "library": kind.library if kind else "user"}
        number = self._symbols.new("root", {"name": f"copy of {root.name}", **fields, "ordinal": self._ordinal})
        self._ordinal += 1
        return number

    def loose_root(self, name: str) -> Root:
        """A root that stands for trained tensors outside every module."""
        fields = {"name": name, "class": name, "library": "user", "ordinal": self._ordinal}
        self._ordinal += 1
        return Root(_nothing, name, self._symbols.new("root", fields))

    def _name_members(self, root: Root, members: list[tuple[torch.nn.Module, str]]) -> None:
        root.members = []
        named: set[int] = set()
        for module, path in members:
            info = self.info(module)
            root.members.append(info.ref)
            if id(module) in named:
                continue
            named.add(id(module))
            if info.root is not root or info.path != path:
                info.root, info.path, info.mod = root, path, 0
        root.shape = root.current_shape()
