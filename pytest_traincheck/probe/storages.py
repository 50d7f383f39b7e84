"""Tensors that are remembered by their memory, which keeps neither the memory nor the tensor.

A weak reference to a tensor is seen by its owner: `torch.utils.swap_tensors`, and with it `.to()` and
`load_state_dict` of many models, refuses a tensor that has one. A weak reference to its storage is not.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

from . import digest as content

_ROOM = 1024
"""Storages that are counted before those that were given back are looked for."""
_Storage: Any = torch.UntypedStorage
_lock = threading.RLock()
"""What one thread forgets, another may be about to ask for: a weak reference that was given back is no address."""


def forked() -> None:
    """In a forked child: another thread of the parent may have held the lock."""
    global _lock
    _lock = threading.RLock()


class Remembered:
    """Where the numbers of a strided tensor lie. Made by `remembered`."""

    __slots__ = ("_dtype", "_place", "_weak", "storage")

    def __init__(self, readable: torch.Tensor) -> None:
        storage = readable.untyped_storage()
        self._weak: Any = storage._weak_ref()
        self.storage = int(storage._cdata)
        """A number of the storage's own, as long as it is remembered."""
        self._dtype = readable.dtype
        self._place = (readable.storage_offset(), tuple(readable.shape), readable.stride())

    def __call__(self) -> torch.Tensor | None:
        """A new tensor of the same numbers, `None` when its memory was given back."""
        with _lock:
            storage: Any = _Storage._new_with_weak_ptr(self._weak) if self._weak else None
        if storage is None:
            return None
        with torch._C._DisableTorchDispatch():  # no dispatch mode of the user's sees the new tensor
            made = torch.empty(0, dtype=self._dtype, device=storage.device)
            return content.local(made.set_(storage, *self._place))

    @property
    def alive(self) -> bool:
        """Whether somebody holds the memory."""
        with _lock:
            return bool(self._weak) and not _Storage._expired(self._weak)

    def forget(self) -> None:
        """Give back the few bytes that a weak reference keeps; from then on the memory counts as given back.

        Not when the object is collected: what a signal handler raises in a `__del__` is lost.
        """
        with _lock:
            weak, self._weak = self._weak, 0
            if weak:
                _Storage._free_weak_ref(weak)

    def is_of(self, tensor: torch.Tensor) -> bool:
        """Whether these are the numbers of a tensor."""
        readable = content.local(tensor)
        if readable is None or readable.layout is not torch.strided or not self.alive:
            return False
        place = (readable.storage_offset(), tuple(readable.shape), readable.stride())
        return place == self._place and int(readable.untyped_storage()._cdata) == self.storage


def remembered(tensor: torch.Tensor) -> Remembered | None:
    """What remembers a tensor, `None` for one that has no memory of its own."""
    readable = _strided(tensor)
    return None if readable is None else Remembered(readable)


class Counts:
    """How often something was done to the memory of a tensor. Forgets what is given back."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], tuple[Remembered, int]] = {}
        self._room = _ROOM

    def of(self, tensor: torch.Tensor) -> int:
        readable = _strided(tensor)
        known = self._found.get(_place(readable)) if readable is not None else None
        return known[1] if known is not None and known[0].alive else 0

    def add(self, tensor: torch.Tensor, count: int = 1) -> None:
        """Count once more; nothing happens for a tensor that has no memory of its own."""
        readable = _strided(tensor)
        if readable is None:
            return
        place = _place(readable)
        known = self._found.get(place)
        if known is not None and known[0].alive:
            self._found[place] = (known[0], known[1] + count)
            return
        if known is not None:
            known[0].forget()
        self._found[place] = (Remembered(readable), count)
        if len(self._found) > self._room:
            for key in [key for key, (held, _) in self._found.items() if not held.alive]:
                self._found.pop(key)[0].forget()
            self._room = 2 * max(len(self._found), _ROOM)


def _strided(tensor: torch.Tensor) -> torch.Tensor | None:
    readable = content.local(tensor)
    return None if readable is None or readable.layout is not torch.strided else readable


def _place(readable: torch.Tensor) -> tuple[int, int]:
    return int(readable.untyped_storage()._cdata), int(readable.storage_offset())
