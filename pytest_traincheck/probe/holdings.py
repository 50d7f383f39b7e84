"""What data sets hold, by its hash, so that a write into it shows at the next look.

A data set is walked through its attributes: tensors, NumPy arrays, and lists of numbers or words that belong to an
example. Only what was there at the look before, under the same name and of the same shape, is compared: a cache that
fills is no write into data. Nothing here keeps an array or a data set alive.
"""

from __future__ import annotations

import mmap
import weakref
import zlib
from typing import Any

import torch

from . import digest as content
from . import walk
from .core import native
from .spacing import stride

STORED = "stored."
"""Prefix of the measures; the class of what holds the data follows, and the attribute under which."""

BYTES = 1 << 29
"""What a process may hash for this in all; reckoned in bytes, so that two runs of one program see the same."""
_WHOLE = 1 << 26
"""Bytes up to which an array is hashed as a whole; of a larger one evenly spaced elements stand for it."""
_SAMPLE = 1 << 16
_FEW = 1 << 10
_ARRAYS = 4096
"""Arrays of a data set that are looked at."""
_DEPTH = 6
_FEWEST = 2
"""Numbers without which a tensor or list is no data."""
_ITEMS = 256
"""Items of a list up to which all are looked at; of a longer one evenly spaced ones stand for it, and its length."""

_OFTEN, _MANY = 8, 64
"""Looks at a data set behind which passes of fewer batches than these are looked at only when they begin."""

_Seen = tuple[Any, int, int]
"""Shape and dtype of an array, its hash (0 of one that had one value throughout, as an empty cache), and the hash of
its bytes in any case; 0 of a list.
"""
_Known = dict[str, _Seen]
"""Path of an array -> what was seen of it."""


_NOTHING: _Known = {}


class Holdings:
    """Remembers the hashes of each data set that is looked at."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], dict[str, _Known], int]] = {}
        self._left = BYTES

    def is_due(self, dataset: Any, reader: Any, made: int) -> bool:
        """Whether to look at a data set when `reader` has made so many batches of it in this pass.

        At first that is when it has made none, and then less and less often. In later passes it is when a pass begins,
        and behind so many batches that a look costs little beside them.
        """
        if made & (made - 1):
            return False
        known = self._known.get(id(_owner(dataset, reader)))
        return made == 0 or made >= _MANY or known is None or known[2] < _OFTEN

    def look(self, dataset: Any, reader: Any) -> list[tuple[str, float]]:
        """Of each attribute, by its name, the share of its arrays that have other numbers than at the look before;
        nothing at the first look, and nothing when too much was hashed. Call under `quiet()`.

        `reader` is what makes batches of the data set: a list can be known again only as long as that is the same.
        """
        owner = _owner(dataset, reader)
        if self._left <= 0 or owner is None:
            return []
        known = self._known.get(id(owner))
        before, looks = known[1:] if known is not None and known[0]() is owner else ({}, 0)
        found: dict[str, _Known] = {}
        for name, path, array in _arrays(dataset):
            described = _described(array, before.get(name, _NOTHING).get(path))
            if described is not None:
                self._left -= described[1]
                found.setdefault(name, {})[path] = described[0]
        kept = {
            name: {path: _empty_stays(before.get(name, {}).get(path), now) for path, now in arrays.items()}
            for name, arrays in found.items()
        }
        self._known[id(owner)] = weakref.ref(owner), kept, looks + 1
        return [
            (name, share)
            for name, arrays in found.items()
            if (share := _changed(before.get(name, {}), arrays)) is not None
        ]


def _owner(dataset: Any, reader: Any) -> Any:
    """What a data set is known by: itself, or else what reads it; None where neither lets itself be referred to."""
    for thing in (dataset, reader):
        if getattr(type(thing), "__weakrefoffset__", 0):
            return thing
    return None


def _empty_stays(before: _Seen | None, now: _Seen) -> _Seen:
    """What began as an empty cache is one, whatever it holds by now."""
    return before if before is not None and before[0] == now[0] and not before[1] else now


def _changed(before: _Known, now: _Known) -> float | None:
    """The share of the arrays known from before that have changed; None where there is nothing to compare."""
    pairs = [
        (before[path][1], hashed)
        for path, (shape, hashed, _) in now.items()
        if path in before and before[path][0] == shape and before[path][1]
    ]
    return sum(was != is_now for was, is_now in pairs) / len(pairs) if pairs else None


def _arrays(dataset: Any) -> list[tuple[str, str, Any]]:
    """Name of the attribute, path below it, and array, for all that a data set holds."""
    found: list[tuple[str, str, Any]] = []
    seen: set[int] = set()

    def below(name: str, path: str, value: Any, depth: int, of_example: bool = False) -> None:
        if len(found) >= _ARRAYS or depth < 0 or value is None:
            return
        kind = type(value)
        if issubclass(kind, torch.Tensor) or _is_array(value):
            found.append((name, path, value))
            return
        if kind in _PLAIN or id(value) in seen:
            return
        seen.add(id(value))
        pairs = walk.pairs(value)
        items: Any = walk.sequence(value) if pairs is None else None
        if items is not None:
            # One that is no example's is a list of places, lengths or draws.
            some = items[:: -(-len(items) // _ITEMS)] if of_example and len(items) >= _FEWEST else ()
            if some and all(type(item) in _PLAIN_ITEMS for item in some):
                found.append((name, path, [len(items), *some]))
                return
            of_example = True
            pairs = [(str(number), item) for number, item in enumerate(items[:_ARRAYS])]
        if pairs is not None:
            for key, item in pairs:
                below(name, f"{path}.{key}", item, depth - 1, of_example)
            return
        for key, item in walk.attributes(value):
            below(f"{kind.__name__}.{key}", "", item, depth - 1)

    below(type(dataset).__name__, "", dataset, _DEPTH)
    return found


_PLAIN_ITEMS = frozenset({int, float, bool, str})
_PLAIN = frozenset({*_PLAIN_ITEMS, bytes, complex, type(None)})


def _is_array(value: Any) -> bool:
    kind = type(value)
    return kind.__module__ == "numpy" and hasattr(kind, "ravel") and getattr(value, "ndim", 0) > 0


def _described(array: Any, before: _Seen | None) -> tuple[_Seen, int] | None:
    """What is to be seen of an array, of which this was seen `before`, and how many bytes were hashed for it; None of
    what cannot be read.
    """
    if type(array) is list:
        text = repr(array).encode()
        return ("list", zlib.crc32(text) + 1, 0), len(text)
    if issubclass(type(array), torch.Tensor):
        return _as_before(array, before) or _of_tensor(array, before)
    if array.dtype.kind not in "biufc" or not array.size or _is_in_a_file(array):
        return None
    if array.nbytes > _WHOLE and not array.flags.c_contiguous:
        return None
    flat = array.reshape(-1)
    data = flat if array.nbytes <= _WHOLE else flat[:: stride(array.size, _SAMPLE)]
    shape, hashed = (tuple(array.shape), str(array.dtype)), zlib.crc32(data.tobytes()) + 1
    if before is not None and before[0] == shape and before[2] == hashed:
        return before, int(data.nbytes)
    few = data[:_FEW].tobytes()
    constant = few == data[:1].tobytes() * (len(few) // array.itemsize) and bool((data == data[0]).all())
    return (shape, 0 if constant else hashed, hashed), int(data.nbytes)


def _is_in_a_file(array: Any) -> bool:
    """Whether an array is a file that is mapped into memory: to look at it is to read it from disk."""
    below = array
    while _is_array(below):
        below = below.base
    return type(below) is mmap.mmap


def _as_before(tensor: torch.Tensor, before: _Seen | None) -> tuple[_Seen, int] | None:
    """The same of a tensor whose bytes have not changed, which most of a data set are; None where that is not sure."""
    look = native.look(tensor, False, content.NONZERO) if native is not None and before is not None else None
    if look is None or before is None or look[1] != before[2]:
        return None
    return (before, look[3]) if before[0] == (tensor.shape, str(tensor.dtype)) else None


def _of_tensor(tensor: torch.Tensor, before: _Seen | None) -> tuple[_Seen, int] | None:
    readable = content.local(tensor.detach())
    if readable is None or readable.layout is not torch.strided or not readable.numel():
        return None
    flat = readable.reshape(-1) if readable.nbytes <= _WHOLE or readable.is_contiguous() else None
    if flat is None:
        return None
    data = flat if readable.nbytes <= _WHOLE else flat[:: stride(flat.numel(), _SAMPLE)].contiguous()
    shape, hashed = (tuple(readable.shape), str(readable.dtype)), content.digest(data)
    if before is not None and before[0] == shape and before[2] == hashed:
        return before, data.nbytes
    return (shape, 0 if _is_constant(data) else hashed, hashed), data.nbytes


def _is_constant(data: torch.Tensor) -> bool:
    """Whether a flat tensor has one value throughout. To compare all takes ten times as long as to hash all, and the
    first few tell of most data.
    """
    numbers = content.in_whole_numbers(data) if data.dtype in content.NUMBERS else data
    return all(bool((part == numbers[0]).all()) for part in (numbers[:_FEW], numbers))
