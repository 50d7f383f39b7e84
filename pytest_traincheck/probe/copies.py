"""Copies of parameters that no module holds, such as the averages of an EMA in a dictionary of tensors."""

from __future__ import annotations

import torch

from . import digest as content
from .modules import Modules, Root
from .storages import Remembered, remembered
from .variables import Variables

_NOTED = 1024
"""Copies that are noted before those that were thrown away are looked for."""


class Copies:
    """Notes copies as they are made, and tracks those that are still there when training begins."""

    def __init__(self, variables: Variables, modules: Modules) -> None:
        self._variables = variables
        self._modules = modules
        self.noted: list[tuple[int, torch.Size, Remembered]] = []
        """Address and shape of what was copied, and the copy."""
        self._room = _NOTED

    def note(self, source: torch.Tensor, copy: torch.Tensor) -> None:
        """Remember where the numbers in `copy` came from; whether that was a parameter is asked when one is needed."""
        readable = content.local(source)
        if readable is not None and content.has_address(readable):
            # Names are not looked up here: in the middle of a `deepcopy` modules stand around without their parents.
            held = remembered(copy)
            if held is not None:
                self.noted.append((readable.data_ptr(), source.shape, held))
            if len(self.noted) > self._room:
                # A process that takes no step, such as the worker of a DataLoader, would note them for ever.
                alive = [noted for noted in self.noted if noted[2].alive]
                for noted in self.noted:
                    if noted not in alive:
                        noted[2].forget()
                self.noted = alive
                self._room = 2 * max(len(self.noted), _NOTED)

    def adopt(self) -> None:
        """Track the copies of parameters that are still alive and in no module; what has been noted is forgotten."""
        noted, self.noted = self.noted, []
        alive = []
        for pointer, shape, held in noted:
            if held.alive:
                alive.append((pointer, shape, held))
            else:
                held.forget()
        if not alive:
            return
        variables = self._variables
        variables.refresh()
        sources = self._by_address()
        tracked = self._storages()
        numbers: dict[int, int] = {}
        for pointer, shape, held in alive:
            root, name = sources.get((pointer, shape), (None, ""))
            if root is None or held.storage in tracked or variables.has_copy(root, name):
                held.forget()
                continue
            if root.id not in numbers:
                numbers[root.id] = self._modules.copy_root(root)
            variables.add_copy(root, numbers[root.id], name, held)

    def _storages(self) -> set[int]:
        """Numbers of the storages of everything that modules and optimizers hold."""
        slots = self._variables.slots()
        readable = (content.local(tensor) for slot in slots if (tensor := slot.tensor()) is not None)
        strided = (tensor for tensor in readable if tensor is not None and tensor.layout is torch.strided)
        return {int(tensor.untyped_storage()._cdata) for tensor in strided}

    def _by_address(self) -> dict[tuple[int, torch.Size], tuple[Root, str]]:
        """Root and name of every parameter that has an address by it and shape."""
        found: dict[tuple[int, torch.Size], tuple[Root, str]] = {}
        for root in self._variables.models:
            for slot in root.slots:
                held = slot.tensor() if slot.grad is not None else None
                readable = content.local(held) if held is not None else None
                if held is not None and readable is not None and content.has_address(readable):
                    found.setdefault((readable.data_ptr(), held.shape), (root, slot.var.name))
        return found
