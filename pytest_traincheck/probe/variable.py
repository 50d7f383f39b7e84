"""One tracked variable: its last seen state, and the place in a model or an optimizer that holds it."""

from __future__ import annotations

from typing import Any

import torch

from . import digest as content
from .core import native
from .theirs import is_theirs


class Fields:
    """What is remembered of one variable."""

    __slots__ = (
        "digest", "drifts", "elements", "first", "id", "key", "kind", "name", "opt", "origin", "pointer", "root",
        "sample", "settled", "size", "state", "version", "volatile",
    )  # fmt: skip


class Place:
    """What a place consists of."""

    __slots__ = ("_key", "_owner", "_parameter", "_sharded", "flag", "grad", "var")


if native is not None:
    Fields = native.Fields  # type: ignore[misc]
    Place = native.Place  # type: ignore[misc]


class Var(Fields):
    """One variable and its last seen state."""

    __slots__ = ()

    def __init__(self, kind: str, name: str, root: int = 0, opt: int = 0) -> None:
        self.kind = kind
        self.name = name
        self.root = root
        self.opt = opt
        self.id = 0
        self.first: Var | None = None
        self.state = content.UNSEEN
        self.digest = 0
        self.key = 0
        """`id` of the tensor that was looked at last; 0 for none."""
        self.version = -1
        self.pointer = 0
        self.size = 0
        self.volatile = False
        """Whether it is another object at every look, so that nothing can tell that it has not changed."""
        self.sample = b""
        self.elements: torch.Tensor | None = None
        self.origin: torch.Tensor | None = None
        """Elements at the first step that no optimizer held it in; `None` while one does."""
        self.settled = 0
        """Its hash when it was last compared with these."""
        self.drifts = 0
        """How often it was."""

    def forget(self) -> None:
        """What became of it since the last look is not known."""
        self.state, self.digest, self.key = content.UNSEEN, 0, 0
        self.elements = self.origin = None

    def looks_same(self, tensor: torch.Tensor) -> bool:
        """Whether nothing suggests a change: same tensor, same version, same memory, same kilobyte in the middle."""
        if self.volatile or self.key != id(tensor) or self.version < 0:
            return False
        if native is not None:
            same = native.looks_same(tensor, self.version, self.pointer, self.size, self.sample)
            if same is not None:
                return bool(same)
        if tensor._version != self.version:
            return False
        if self.sample and type(tensor) in content.PLAIN:
            return self._in_place(tensor)
        readable = content.local(tensor)
        if readable is None:
            return False
        if not self.sample:
            return (readable.data_ptr() if readable.layout is torch.strided else 0) == self.pointer
        return (
            readable.data_ptr() == self.pointer
            and readable.nbytes == self.size
            and readable.is_contiguous()
            and content.sample(self.pointer, self.size) == self.sample
        )

    def _in_place(self, tensor: torch.Tensor) -> bool:
        """As `looks_same`, for a tensor that was one block of memory: where its address is that of before, it is not
        freed, and need not be asked for all else that would make it unreadable.
        """
        try:
            pointer = tensor.data_ptr()
        except RuntimeError as error:
            if is_theirs(error):
                raise
            return False
        return (
            pointer == self.pointer
            and tensor.nbytes == self.size
            and tensor.is_contiguous()
            and content.sample(pointer, self.size) == self.sample
        )

    def remember(self, tensor: torch.Tensor, seen: content.Look) -> None:
        self.key = id(tensor)
        self.version = -1 if tensor.is_inference() else tensor._version
        _, _, self.pointer, self.size, self.sample = seen

    def same_as(self, other: Var) -> None:
        """Take over what `other` remembers of the same tensor."""
        self.key, self.version = other.key, other.version
        self.pointer, self.size, self.sample = other.pointer, other.size, other.sample


class Slot(Place):
    """A place that holds a parameter or buffer: an entry of a module, or a member of an optimizer group."""

    __slots__ = ()

    def __init__(self, owner: Any, key: str | None, var: Var, grad: Var | None, flag: Var | None) -> None:
        self._owner = owner
        self._key = key
        self._parameter = grad is not None
        self._sharded = False
        self.var = var
        self.grad = grad
        self.flag = flag

    @property
    def owner(self) -> Any:
        """What says who holds the place."""
        return self._owner

    @property
    def in_module(self) -> bool:
        """Whether it is an entry of a module."""
        return self._key is not None

    @property
    def is_saved(self) -> bool:
        """Whether `state_dict()` has it: every parameter of a module, and its buffers but those that do not persist."""
        owner = self._owner()
        return self._key is not None and owner is not None and self._key not in owner._non_persistent_buffers_set

    def is_of_shards(self) -> None:
        """The parameter is one rank's shard: another one here is the whole, put together for a pass. It is no change,
        and has no gradient for the optimizer.
        """
        self._sharded = True

    def tensor(self) -> torch.Tensor | None:
        """What the place holds now."""
        owner = self._owner()
        if owner is None or self._key is None:
            return owner if issubclass(type(owner), torch.Tensor) else None
        found: Any = (owner._parameters if self._parameter else owner._buffers).get(self._key)
        # A lazy parameter has neither shape nor content before its module's first call.
        if type(found) is torch.nn.Parameter:
            return None if self._sharded else found  # nearly always, and its metaclass makes `isinstance` slow
        if self._parameter and not isinstance(found, torch.nn.Parameter):
            return None  # `torch.func.functional_call` has put something else in its place for a while
        return found if isinstance(found, torch.Tensor) and not isinstance(found, content.Lazy) else None
