"""Which variables are tracked: the places in models and optimizers that hold tensors, and what they are called."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import torch

from . import digest as content
from . import loose
from .modules import Modules, Root
from .storages import Remembered
from .summary import dtype_name
from .switches import Switches
from .symbols import Symbols
from .variable import Slot, Var

_OF_PARAMETER = ("parameter", "gradient", "requires_grad")
"""Kinds of variables that stand for one parameter."""


def holds_another(slot: Slot, tensor: torch.Tensor) -> bool:
    """Whether a place of a parameter in a module holds another one than at the last look."""
    return slot.var.key not in (0, id(tensor)) and slot.grad is not None and slot.in_module


class Tracked(Switches):
    """The places and the names of all tracked variables of this process."""

    def __init__(self, symbols: Symbols, modules: Modules) -> None:
        self._symbols = symbols
        self._modules = modules
        self._generation = -1
        self._roots: list[Root] = []
        self._by_tensor: dict[int, Slot] = {}
        self._orphans: dict[int, Slot] = {}
        self._orphan_names: dict[tuple[int, str], tuple[Var, Var, Var]] = {}
        self._copies: dict[tuple[int, str], Slot] = {}
        self._loose: list[Root] = []
        self._shards: set[Var] = set()
        """Parameters that were one rank's shard when their names were given."""
        self._placed: set[Var] = set()
        """Those of them of which it was told how they lie on the ranks."""
        self._every: list[Slot] | None = None
        self.unseen = False
        """Whether there may be places that have not been looked at."""
        self.replaced = False
        """Whether a parameter may have taken the place of another one since names were given."""

    # names

    def refresh(self, among: Collection[Root] | None = None) -> bool:
        """Take note of new modules, and of new parameters and buffers of roots (`among`: of some); true if names may
        have changed."""
        self._modules.refresh(among)
        if self._generation == self._modules.generation:
            return False
        self._generation = self._modules.generation
        self.unseen = True
        self._roots = self._modules.roots
        self._by_tensor = {}
        self._every = None
        for root in self._roots:
            root.slots = list(self._enumerate(root))
            root.buffered = any(slot.grad is None for slot in root.slots)
        self._orphans = {key: slot for key, slot in self._orphans.items() if slot.tensor() is not None}
        for key in [key for key in self._orphans if key in self._by_tensor]:
            del self._orphans[key]
        return True

    def _enumerate(self, root: Root) -> Iterable[Slot]:
        top = root.ref()
        if top is None:
            return
        for module, path in self._modules.wrappers.walk(top):
            ref = self._modules.info(module).ref
            prefix = f"{path}." if path else ""
            for key, value in list(module._parameters.items()):
                if value is not None:
                    yield self._slot(root, ref, key, prefix + key, value, "parameter")
            for key, buffer in list(module._buffers.items()):
                if buffer is not None:
                    yield self._slot(root, ref, key, prefix + key, buffer, "buffer")

    def _slot(self, root: Root, ref: Any, key: str, name: str, tensor: torch.Tensor, kind: str) -> Slot:
        first = self._by_tensor.get(id(tensor))
        kinds = _OF_PARAMETER if kind == "parameter" else (kind,)
        of_first = (first.var, first.grad, first.flag) if first is not None else (None, None, None)
        var, *others = (self._var(root, kind, name, tied) for kind, tied in zip(kinds, of_first, strict=False))
        slot = Slot(ref, key, var, *(others or (None, None)))
        if kind == "parameter" and content.is_sharded(tensor):
            self._shards.add(var)
        if var in self._shards:
            slot.is_of_shards()
        if first is None:
            self._by_tensor[id(tensor)] = slot
        return slot

    def placed(self) -> Iterable[tuple[int, str]]:
        """Parameters of which it was not told yet how they lie on the ranks, by id, and how they do."""
        for slot in self.slots() if len(self._placed) < len(self._shards) else ():
            tensor = slot.tensor() if slot.var in self._shards and slot.var not in self._placed else None
            if tensor is not None and slot.var.first is None:
                self._placed.add(slot.var)
                yield self.id_of(slot.var, tensor), content.placements(tensor)

    @staticmethod
    def _var(root: Root, kind: str, name: str, first: Var | None = None) -> Var:
        """The variable of a name. Once it was told, one that becomes tied or no longer is gets another one."""
        key = (kind, name, first)
        var = root.vars.get(key)
        if var is None:
            own = root.vars.pop((kind, name, None), None) if first is not None else None
            if own is not None and own.id:
                root.vars[kind, name, None], own = own, None
            var = root.vars[key] = own or Var(kind, name, root=root.id)
            var.first = first
        return var

    def name_again(self) -> bool:
        """Where another tensor has taken the place of a parameter since names were given, give them anew: no number of
        entries of a module shows that. True if so.
        """
        self.replaced = False
        if not any(self._has_another(slot) for root in self._roots for slot in root.slots if slot.grad is not None):
            return False
        self._modules.generation += 1
        return self.refresh()

    def _has_another(self, slot: Slot) -> bool:
        tensor = slot.tensor()
        if tensor is None:
            return False
        known = self._by_tensor.get(id(tensor))
        return known is None or (known is not slot and known.var is not slot.var.first)

    def slot_of(self, tensor: torch.Tensor, opt: int, name: str, held: Callable[[], Any]) -> Slot:
        """Where a parameter of an optimizer lives; one that no module holds is called by its place in the groups, and
        `held` says what is there.
        """
        slot = self._by_tensor.get(id(tensor))
        if slot is not None and slot.tensor() is tensor:
            return slot
        orphan = self._orphans.get(id(tensor))
        if orphan is None or orphan.tensor() is not tensor:
            names = self._orphan_names.get((opt, name))
            if names is None:
                names = (
                    Var("parameter", name, opt=opt),
                    Var("gradient", name, opt=opt),
                    Var("requires_grad", name, opt=opt),
                )
                self._orphan_names[opt, name] = names
            orphan = self._orphans[id(tensor)] = Slot(held, None, *names)
            self._every = None
            self.unseen = True
        return orphan

    def id_of(self, var: Var, tensor: torch.Tensor) -> int:
        """`var` id; the symbol is written when it is first needed."""
        if not var.id:
            same = self.id_of(var.first, tensor) if var.first is not None else 0
            lazy = isinstance(tensor, content.Lazy)
            fields = {
                "kind": var.kind,
                "root": var.root,
                "opt": var.opt,
                "name": var.name,
                "shape": [] if lazy else [size if type(size) is int else -1 for size in tensor.shape],
                "dtype": dtype_name(tensor.dtype),
                "same": same,
                "requires_grad": tensor.requires_grad,
                "group": 0,
            }
            var.id = self._symbols.new("var", fields)
        return var.id

    # trained tensors outside modules

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether a module has a tensor as its parameter, or it is a loose one that is tracked."""
        slot = self._by_tensor.get(id(tensor))
        if slot is not None and slot.tensor() is tensor:
            return True
        return any(slot.tensor() is tensor for root in self._loose for slot in root.slots)

    def add_loose(self, named: Sequence[tuple[str, torch.Tensor]]) -> None:
        """Track tensors that nobody holds as the parameters of a model of their own."""
        self._loose = [root for root in self._loose if any(slot.tensor() is not None for slot in root.slots)]
        root = self._modules.loose_root(loose.NAME)
        root.slots = [
            Slot(loose.Held(tensor), None, *(self._var(root, kind, name) for kind in _OF_PARAMETER))
            for name, tensor in named
        ]
        self._loose.append(root)
        self._every = None
        self.unseen = True

    @staticmethod
    def replace(slot: Slot, tensor: torch.Tensor) -> None:
        """Another tensor has taken the place of a loose one."""
        held = slot.owner
        if isinstance(held, loose.Held):
            held.put(tensor)

    def all_loose(self, slots: Sequence[Slot]) -> bool:
        """Whether these are the tensors of one model that no module holds."""
        return any(root.slots == slots for root in self._loose)

    # copies outside modules

    def add_copy(self, root: Root, number: int, name: str, held: Remembered) -> None:
        """Track a copy of a parameter of `root` as one of the model with this number, which stands for its copies."""
        slot = Slot(held, None, Var("parameter", name, root=number), None, None)
        slot.var.volatile = True
        self._copies[root.id, name] = slot
        self._every = None
        self.unseen = True

    def has_copy(self, root: Root, name: str) -> bool:
        """Whether a copy of a parameter is tracked."""
        return (root.id, name) in self._copies

    @property
    def copies(self) -> Collection[Slot]:
        """The copies that are tracked."""
        return self._copies.values()

    @property
    def models(self) -> tuple[Root, ...]:
        """What modules hold, then what nobody does."""
        return (*self._roots, *self._loose)

    # all of them

    def slots(self) -> list[Slot]:
        """Every place, roots in order of creation, then what only optimizers hold."""
        every = self._every
        if every is None:
            every = [slot for root in self._roots for slot in root.slots]
            every.extend(self._orphans.values())
            every.extend(self._copies.values())
            every.extend(slot for root in self._loose for slot in root.slots)
            self._every = every
        return every
