"""Which threads compute gradients, so that nobody else reads them.

`Tensor.grad` may be read only in the thread that works with it. A backward pass writes it without the global
interpreter lock, and even `tensor.grad = None` in one thread beside a read in another ends a process of PyTorch 2.13
with a segmentation fault.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from . import loose, walks
from .core import native
from .switches import Switches
from .writer import TraceWriter

if TYPE_CHECKING:
    from .variable import Slot

_NOT_READ = "gradients of parameters that another thread may be training"
_MOST = 100_000
"""Leaves that are known of a thread; where there are more they are forgotten, and told by the graphs to come."""


class Backwards(Switches):
    """The threads that have called `backward`, or `torch.autograd.grad`, and are alive.

    As long as there is one, all gradients are its own. Where there are several each has those of the leaves that its
    graphs reach.
    """

    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self._leaves: dict[int, set[int]] = {}
        """Thread -> ids of the leaves that its graphs reach; not kept while it is the only one."""
        self._several = False
        # A signal handler may call `backward` while gradients are read, in the same thread.
        self._lock = threading.RLock()

    def begin(self, roots: Any) -> None:
        """A pass begins in this thread, as soon as no other one reads gradients. `roots`: what it starts from."""
        thread = threading.get_ident()
        with self._lock:
            own = self._leaves.get(thread)
            if own is None:
                self._forget_ended()
                own = self._leaves[thread] = set()
                self._several = self._several or len(self._leaves) > 1
            if self._several:
                if len(own) > _MOST:
                    own.clear()
                own.update(map(id, loose.leaves(roots) or ()))

    def gradients(self, tensors: Iterable[torch.Tensor | None]) -> dict[int, torch.Tensor | None]:
        """The gradient of each tensor that this thread may read it of, by the `id` of the tensor; `None` where a leaf
        has none, and of what is no leaf. What no thread may read is noted.
        """
        thread = threading.get_ident()
        with self._lock:
            own = self._leaves.get(thread)
            if own is None and self._leaves:
                self._forget_ended()
            if self._leaves and (self._several or own is None) and not self._is_device_of_one():
                every = [tensor for tensor in tensors if tensor is not None]
                reached = set().union(*self._leaves.values())
                if any(id(tensor) not in reached for tensor in every):
                    self._writer.leave_out(_NOT_READ)
                return _read(tensor for tensor in every if own and id(tensor) in own)
            return _read(tensors)

    def walk(
        self, slots: list[Slot], full: bool, emit: Any, present: list[Any], readables: list[torch.Tensor]
    ) -> Iterator[tuple[Sequence[Slot], Mapping[int, torch.Tensor | None]]]:
        """Places that are left to be looked at, see `walks`, with the gradients of their tensors."""
        if native is None or not self._reads_all():
            yield slots, self.gradients([slot.tensor() if slot.grad is not None else None for slot in slots])
            return
        for slot in walks.gradients(slots, full, emit, present, readables, self._lock):
            yield [slot], self.gradients([slot.tensor() if slot.grad is not None else None])

    def nothing_new(self, slots: list[Slot], values: bool, gradients: bool) -> bool:
        """Whether it is sure that no value, and no gradient, seems to have changed; false where this thread may not
        read gradients. Only with the compiled core, in which no other thread can begin a pass meanwhile.
        """
        return bool(native.nothing_new(slots, values, gradients, self._leaves, self._several))

    def _reads_all(self) -> bool:
        """Whether this thread is the only one that works with gradients."""
        return not self._leaves or (not self._several and threading.get_ident() in self._leaves)

    def _forget_ended(self) -> None:
        alive = {thread.ident for thread in threading.enumerate()}
        self._leaves = {thread: leaves for thread, leaves in self._leaves.items() if thread in alive}

    def _is_device_of_one(self) -> bool:
        """Whether this thread is one that a pass has for a device, and only one thread trains."""
        return not self._several and torch._C._current_graph_task_id() != -1


def _read(tensors: Iterable[torch.Tensor | None]) -> dict[int, torch.Tensor | None]:
    return {id(tensor): tensor.grad if tensor.is_leaf else None for tensor in tensors if tensor is not None}
