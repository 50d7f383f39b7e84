"""Which rows of the tensors of a batch stand side by side, as hashes that do not depend on the order of the rows.

For each tensor a hash of the set of its rows, and for each beside the largest one a hash of the set of pairs: a row of
the largest tensor and the row in the same place. A batch whose rows come in another order has the same hashes; one
whose inputs were sorted and whose labels were not has other pairs.

A few rows of the largest tensor are looked at by themselves. They say whether a batch that is different is made of the
same examples.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import torch

from . import digest as content

ROWS, PAIRS, ROW = "rows", "pairs", "row"
"""Slots: `rows.NAME`, `pairs.LARGEST|NAME`, and `row.NUMBER.NAME`."""

_MOST_ROWS = 4096
_MOST_BYTES = 1 << 26
_SINGLE = 8
"""Rows of a batch that are looked at by themselves."""
_GOLDEN_RATIO = 0.6180339887498949
"""Its multiples, less their whole parts, fill the way from 0 to 1 at distances that no period meets."""
_MIX = 0x9E3779B97F4A7C15
_OTHER = 0xC2B2AE3D27D4EB4F
_MASK = (1 << 64) - 1


def together(tensors: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, int]]:
    """Slots and hashes of the tensors of a batch that have as many rows as the largest. Call under `quiet()`."""
    readable = [(name.lstrip("."), found) for name, tensor in tensors if (found := _readable(tensor)) is not None]
    if len(readable) < 2:
        return
    largest, anchor = max(readable, key=lambda pair: pair[1].nbytes)
    count = anchor.shape[0]
    first = _hashes(anchor)
    yield f"{ROWS}.{largest}", _of_set(_mixed(row) for row in first)
    for name, tensor in readable:
        if tensor is not anchor and tensor.shape[0] == count:
            rows = _hashes(tensor)
            yield f"{ROWS}.{name}", _of_set(_mixed(row) for row in rows)
            pairs = zip(first, rows, strict=True)
            yield f"{PAIRS}.{largest}|{name}", _of_set(_mixed(_mixed(one) + other * _OTHER) for one, other in pairs)


def single_rows(batch: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
    """Slots and some rows of the largest tensor of a batch, the same of every batch of its size. Call under `quiet()`.

    They stand at uneven distances, so that what happens to every fourth row is seen in a fourth of them.
    """
    readable = [(name.lstrip("."), found) for name, tensor in batch if (found := _readable(tensor)) is not None]
    if readable:
        name, largest = max(readable, key=lambda pair: pair[1].nbytes)
        count = largest.shape[0]
        for number in sorted({int(place * _GOLDEN_RATIO % 1 * count) for place in range(_SINGLE)}):
            yield f"{ROW}.{number}.{name}", largest[number]


def _readable(tensor: torch.Tensor) -> torch.Tensor | None:
    readable = content.local(tensor)
    if readable is None or readable.layout is not torch.strided or not readable.is_cpu or not readable.dim():
        return None
    if readable.is_conj() or readable.is_neg() or not 1 < readable.shape[0] <= _MOST_ROWS:
        return None
    return readable.detach() if 0 < readable.nbytes <= _MOST_BYTES else None


def _hashes(tensor: torch.Tensor) -> list[int]:
    """A checksum of each row."""
    block = tensor.contiguous()
    size = block.nbytes // block.shape[0]
    data = content.memory(block)
    return [zlib.crc32(data[begin : begin + size]) for begin in range(0, len(data), size)]


def _mixed(number: int) -> int:
    number = (number + 1) * _MIX & _MASK
    return ((number ^ (number >> 29)) * _OTHER) & _MASK


def _of_set(hashes: Iterable[int]) -> int:
    return sum(hashes) & _MASK or 1
