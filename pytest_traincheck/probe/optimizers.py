"""Live optimizers: their numbers, their groups as last written, and their learning rates."""

from __future__ import annotations

import functools
import operator
import weakref
from typing import Any

import torch

from . import summary
from .core import native
from .digest import VALUE, number
from .names import class_name, library_of
from .switches import Switches
from .symbols import Symbols
from .variable import Var
from .variables import Emit, Variables

APART = frozenset({"params", "param_names", "lr", "initial_lr"})
"""Entries of a group that are looked at by themselves."""
_Objects = tuple[tuple[int, ...], tuple[Any, ...]]


class OptimizerInfo:
    """What is known about one optimizer."""

    __slots__ = ("groups", "id", "name", "noted", "rates", "ref", "seen", "stepped")

    def __init__(self, ref: weakref.ref[Any], number: int, name: str) -> None:
        self.ref = ref
        self.id = number
        self.name = name
        self.groups: list[Any] = []
        self.noted: tuple[int, list[_Objects]] = (-1, [])
        """What the groups consisted of when they were looked at last, and the generation of names then."""
        self.rates: list[Var] = []
        self.seen: dict[int, float] = {}
        """The very numbers that were learning rates at the last look, by group."""
        self.stepped = False


class Optimizers(Switches):
    """Registry of optimizers seen at work; keeps none alive."""

    def __init__(self, symbols: Symbols, variables: Variables) -> None:
        self._symbols = symbols
        self._variables = variables
        self._infos: dict[int, OptimizerInfo] = {}
        self._count = 0
        self.met = False
        """Whether there has been an optimizer of torch's."""

    def info(self, optimizer: torch.optim.Optimizer) -> OptimizerInfo:
        info = self._infos.get(id(optimizer))
        if info is None or info.ref() is not optimizer:
            name = class_name(type(optimizer))
            fields = {"class": name, "library": library_of(type(optimizer).__module__), "ordinal": self._count}
            self._count += 1
            self.met = True
            info = OptimizerInfo(weakref.ref(optimizer), self._symbols.new("opt", fields), name)
            self._infos[id(optimizer)] = info
        return info

    def number(self, optimizer: torch.optim.Optimizer) -> int:
        """Number of an optimizer that was seen at work; 0 for another one."""
        info = self._infos.get(id(optimizer))
        return info.id if info is not None and info.ref() is optimizer else 0

    def by_hand(self, name: str) -> int:
        """Number of an optimizer that stands for updates which the program makes itself."""
        number = self._symbols.new("opt", {"class": name, "library": "user", "ordinal": self._count})
        self._count += 1
        return number

    def tensors(self, optimizer: torch.optim.Optimizer) -> set[int]:
        """Ids of the parameters of an optimizer."""
        return {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}

    def all_tensors(self) -> set[int]:
        """Ids of the parameters of all live optimizers."""
        found: set[int] = set()
        for key, info in list(self._infos.items()):
            optimizer = info.ref()
            if optimizer is None:
                del self._infos[key]
            elif hasattr(optimizer, "param_groups"):
                found |= self.tensors(optimizer)
        return found

    def note_groups(self, optimizer: torch.optim.Optimizer, seq: int) -> None:
        """Write `group` symbols for groups that are new or have other members or hyper-parameters than before."""
        info = self.info(optimizer)
        generation = self._variables._generation
        then, before = info.noted
        if native is not None and then == generation and native.same_groups(optimizer.param_groups, before, APART):
            return
        noted = [_objects(group) for group in optimizer.param_groups]
        if then == generation and len(noted) == len(before) and all(map(_are_same, noted, before)):
            return
        info.noted = generation, noted
        for index, group in enumerate(optimizer.param_groups):
            hyper = {
                name: summary.key_of(value, 1) for name, value in group.items() if name not in ("params", "param_names")
            }
            # The learning rate is a variable of its own; here it only says what the group was made with.
            rates = {name: hyper.pop(name) for name in ("lr", "initial_lr") if name in hyper}
            seen = (tuple(map(id, group["params"])), hyper, generation)
            if index < len(info.groups) and info.groups[index][0] == seen:
                continue
            params = [self._id_of(tensor, info, index, place) for place, tensor in enumerate(group["params"])]
            known = (params, hyper)
            if index >= len(info.groups):
                info.groups.append((None, None))
            if info.groups[index][1] != known:
                values = {name: summary.from_key(value) for name, value in (hyper | rates).items()}
                self._symbols.group(info.id, index, params, values, seq)
            info.groups[index] = (seen, known)

    def _id_of(self, tensor: torch.Tensor, info: OptimizerInfo, index: int, place: int) -> int:
        held = functools.partial(_member, info.ref, index, place)
        slot = self._variables.slot_of(tensor, info.id, f"group{index}.param{place}", held)
        return self._variables.id_of(slot.var, tensor)

    def note_rates(self, optimizer: torch.optim.Optimizer, emit: Emit) -> None:
        """Look at the learning rate of every group."""
        info = self.info(optimizer)
        for index, group in enumerate(optimizer.param_groups):
            rate = group.get("lr")
            if index < len(info.rates) and info.rates[index].state == VALUE and info.seen.get(index) is rate:
                continue
            value = float(rate) if isinstance(rate, (int, float)) else number(rate)
            if index == len(info.rates):
                info.rates.append(Var("lr", f"group{index}.lr", opt=info.id))
            if value is not None:
                self._variables.look_at_rate(info.rates[index], index, value, emit)
            if type(rate) is float:
                info.seen[index] = rate
            else:
                info.seen.pop(index, None)

    def look_again(self, emit: Emit) -> None:
        """The learning rates of all live optimizers, as if they were seen for the first time."""
        for info in list(self._infos.values()):
            optimizer = info.ref()
            if optimizer is not None and info.rates:
                for rate in info.rates:
                    rate.forget()
                self.note_rates(optimizer, emit)


_NEVER_CHANGE = frozenset({float, int, bool, str, type(None)})


def _objects(group: dict[str, Any]) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """What a group consists of beside its learning rate: ids of its members; names and values. Of these a new object
    stands for one that could be changed where it is, so that it is no other time the same.
    """
    found: list[Any] = []
    for name, value in group.items():
        if name not in APART:
            kind = type(value)
            fixed = kind in _NEVER_CHANGE or (kind is tuple and all(type(item) in _NEVER_CHANGE for item in value))
            found += (name, value if fixed else object())
    return tuple(map(id, group["params"])), tuple(found)


def _are_same(ours: _Objects, theirs: _Objects) -> bool:
    values, others = ours[1], theirs[1]
    return ours[0] == theirs[0] and len(values) == len(others) and all(map(operator.is_, values, others))


def _member(optimizer: weakref.ref[Any], index: int, place: int) -> Any:
    """What an optimizer holds at a place in its groups; `None` when there is no such place any more."""
    groups = getattr(optimizer(), "param_groups", [])
    members = groups[index]["params"] if index < len(groups) else []
    return members[place] if place < len(members) else None
