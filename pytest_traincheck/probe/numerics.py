"""Small numbers about tensors and random generators. Everything here is called under `quiet()` and disturbs nothing."""

from __future__ import annotations

import random
import sys
import zlib
from collections.abc import Collection, Sequence
from typing import Any

import torch

from . import cuda_generators
from . import digest as content
from .spacing import stride
from .walk import pairs, sequence

SAMPLE = 256
"""Elements of a tensor that stand for all of it when it is compared with itself a step later."""

_MASK = (1 << 64) - 1


def rms_and_mean(tensor: torch.Tensor) -> tuple[float, float] | None:
    """Root mean square and mean of a floating-point tensor; `None` where they cannot be read or are not finite."""
    readable = _numbers(tensor)
    if readable is None:
        return None
    data = readable.detach()
    data = data.float() if data.element_size() < 4 else data
    size = data.numel()
    rms = float(torch.linalg.vector_norm(data)) / size**0.5
    mean = float(data.sum()) / size
    return (rms, mean) if rms < float("inf") and mean == mean else None


_ENOUGH = 256
"""Elements from which on the farthest of them tells an even distribution from one with tails."""
_SQUARE = 512
"""Vectors that are compared with one another, each with each."""
_ROUNDING = 1e-4
_NEAR = 0.05
"""Standard deviation, relative to the root mean square, up to which elements may be equal for all that sums tell."""
_CHANCE = 1e-6
"""How likely elements that are drawn may be equal by chance, at most, where their being equal is told."""


def shape_of_values(tensor: torch.Tensor, rms: float, mean: float) -> dict[str, float]:
    """What drawn numbers are like beside their scale, by name, as far as it can be said: how far the farthest is from
    the mean, in standard deviations; which row alone is all zero, -1 for none or several; 1 where the rows of a matrix,
    or its columns if there are fewer, are of one length and at right angles to each other, else 0. Of those next to
    equal: 1 where all are the same to the last bit, else 0, unless so few of their dtype are the same by chance.
    """
    readable = _numbers(tensor)
    deviation = max(rms * rms - mean * mean, 0.0) ** 0.5
    if readable is None:
        return {}
    data, found = readable.detach(), {}
    if deviation <= _NEAR * rms and torch.finfo(data.dtype).eps ** (data.numel() - 1) <= _CHANCE:
        low, high = torch.aminmax(data)
        found["equal"] = float(low == high)
    if deviation <= 1e-3 * rms:
        return found
    if data.numel() >= _ENOUGH:
        flat = data.reshape(-1)[:: -(-data.numel() // _MOST_ELEMENTS)] if data.is_contiguous() else data
        low, high = torch.aminmax(flat)
        found["farthest"] = max(float(high) - mean, mean - float(low)) / deviation
    if data.dim() > 1 and len(data) > 1:
        rows = data.reshape(len(data), -1)
        begin = (rows[:, 0] == 0).nonzero()[:, 0][:_SQUARE]  # Few begin with 0 that are not all zero.
        empty = begin[(rows[begin] == 0).all(1)]
        found["zero row"] = float(empty[0]) if len(empty) == 1 else -1.0
        found["orthogonal"] = float(_is_orthogonal(rows if rows.shape[0] <= rows.shape[1] else rows.T))
    return found


def _is_orthogonal(rows: torch.Tensor) -> bool:
    if not 1 < len(rows) <= _SQUARE or not _is_diagonal(rows[:2]):
        return False
    return _is_diagonal(rows)


def _is_diagonal(rows: torch.Tensor) -> bool:
    rows = rows.float()
    products = rows @ rows.T
    size = float(products[0, 0])
    rest = products - size * torch.eye(len(rows), device=rows.device)
    return size > 0 and float(rest.abs().max()) <= _ROUNDING * size


_WHOLE = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_FEW_ROWS = 4
"""Rows from which on the mean of a column says something about the column."""
_MOST_ELEMENTS, _MOST_ROWS = 1 << 16, 1 << 12
"""Of larger tensors about as many are looked at, evenly spaced."""


def sorts_of_numbers(tensor: torch.Tensor) -> tuple[int, int, dict[str, float]] | None:
    """How many rows a tensor has, a hash that tells it from another one, and what its numbers are like by name; `None`
    where it has no rows or cannot be read. Elements of a vector are rows.

    Of whole numbers the smallest and the largest, and the shares of rows that begin and that end with 0. Of others the
    shares of rows that hold one below 0, one above 1, one below -1 and one that is not whole, and how far the columns
    are off centre: the sum of their squared means relative to the mean sum of squares, 0 to 1. Of both the share of
    elements that are 0.
    """
    readable = content.local(tensor)
    if readable is None or readable.layout is not torch.strided or not readable.numel() or not readable.dim():
        return None
    data = readable.detach()
    count = data.shape[0]
    rows = data[:: -(-count // _MOST_ROWS)]
    rows = rows.reshape(len(rows), -1)
    few = rows[:, :: -(-rows.numel() // _MOST_ELEMENTS)]
    if data.dtype.is_floating_point:
        if data.element_size() < 2:
            return None
        few = few.float() if data.element_size() < 4 else few
        facts = _of_fractions(few)
    elif data.dtype not in _WHOLE:
        return None
    else:
        low, high = torch.aminmax(data.to(torch.uint8) if data.dtype is torch.bool else data)
        facts = {"smallest": float(low), "largest": float(high)}
        if rows.shape[1] > 1:
            facts["zero first"], facts["zero last"] = (float((rows[:, place] == 0).float().mean()) for place in (0, -1))
    facts["zero"] = float((few == 0).sum()) / few.numel()
    return count, _told_apart_by(few), facts


def _of_fractions(rows: torch.Tensor) -> dict[str, float]:
    low, high = rows.amin(1), rows.amax(1)
    found = {
        "negative": low < 0,
        "above one": high > 1,
        "below minus one": low < -1,
        "fractional": (rows.frac() != 0).any(1),
    }
    facts = {name: float(which.float().mean()) for name, which in found.items()}
    size = float(torch.linalg.vector_norm(rows)) ** 2 / len(rows)
    if len(rows) >= _FEW_ROWS and 0 < size < float("inf"):
        facts["off centre"] = float(torch.linalg.vector_norm(rows.mean(0))) ** 2 / size
    return facts


def _told_apart_by(rows: torch.Tensor) -> int:
    flat = rows.reshape(-1)
    return content.digest(flat[:: -(-len(flat) // SAMPLE)].contiguous())


def sample(tensor: torch.Tensor) -> torch.Tensor | None:
    """A copy of at most `SAMPLE` evenly spaced elements, shape (n,), float64 on the CPU."""
    return samples([tensor])[0]


def samples(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    """The same of many; another device is waited for once."""
    found: list[torch.Tensor | None] = [_few(tensor) for tensor in tensors]
    far: dict[torch.device, list[int]] = {}
    for place, few in enumerate(found):
        if few is not None and not few.is_cpu:
            far.setdefault(few.device, []).append(place)
    for places in far.values():
        own = [item for place in places if (item := found[place]) is not None]
        parts = torch.split(torch.cat(own).cpu(), [len(item) for item in own])
        for place, part in zip(places, parts, strict=True):
            found[place] = part
    return found


def _few(tensor: torch.Tensor) -> torch.Tensor | None:
    readable = _numbers(tensor)
    if readable is None or not readable.is_contiguous():
        return None
    return readable.detach().view(-1)[:: stride(readable.numel(), SAMPLE)].to(torch.float64, copy=True)


def relative_change(before: torch.Tensor, after: torch.Tensor) -> float:
    """norm(after - before) / norm(before); infinite when something came out of nothing."""
    size = float(torch.linalg.vector_norm(before))
    change = float(torch.linalg.vector_norm(after - before))
    return change / size if size else float("inf")


def first_tensor(value: Any, depth: int = 2) -> torch.Tensor | None:
    """The first floating-point tensor in a result."""
    if issubclass(type(value), torch.Tensor):
        return value if value.is_floating_point() else None
    for item in _items(value)[:4] if depth else ():
        found = first_tensor(item, depth - 1)
        if found is not None:
            return found
    return None


def leading_sizes(value: Any, depth: int = 4) -> set[int]:
    """The sizes of the first dimension of every tensor in a batch that has dimensions."""
    if issubclass(type(value), torch.Tensor):
        return {int(value.shape[0])} if not value.is_nested and value.dim() else set()
    return set().union(*(leading_sizes(item, depth - 1) for item in _items(value))) if depth else set()


def repeated_tensors(value: Any, depth: int = 4) -> int:
    """How many floating-point tensors of a batch have the content of another one in it."""
    digests: list[int] = []

    def walk(item: Any, left: int) -> None:
        if issubclass(type(item), torch.Tensor):
            readable = content.local(item)
            if readable is not None and item.is_floating_point() and item.numel() > 1:
                digests.append(content.digest(readable))
        elif left:
            for part in _items(item):
                walk(part, left - 1)

    walk(value, depth)
    return len(digests) - len(set(digests))


def _items(value: Any) -> Sequence[Any]:
    """What a container holds; nothing for everything else."""
    named = pairs(value)
    return (sequence(value) or ()) if named is None else [item for _, item in named]


def counting_from(indices: torch.Tensor) -> int | None:
    """Where every row of indices begins to count up by one, as position ids do; -1 if some row does not count, `None`
    for rows too short to tell. A row may end in a constant, which pads it.
    """
    if indices.dim() == 0 or indices.is_floating_point() or indices.shape[-1] < 3:
        return None
    rows = indices.reshape(-1, indices.shape[-1])
    steps = rows[:, 1:] - rows[:, :-1]
    # Once a row has stopped counting it must hold still, or fall back to the number that pads.
    counting = (steps == 1).to(torch.int64).cumprod(1).bool()
    after = steps[:, 1:].masked_fill(counting[:, 1:] | counting[:, :-1], 0)
    if not bool((counting.any(1) | (rows.shape[1] < 2)).all()) or bool(after.any()):
        return -1
    first = rows[:, 0]
    return int(first[0]) if bool((first == first[0]).all()) else -1


def hides_the_future(mask: torch.Tensor, name: str) -> bool | None:
    """Whether a square mask hides every later position from every earlier one; `None` if it is not square.

    `masked_fill` fills where its mask is true; attention sees where a boolean mask is true, and adds one of numbers.
    """
    if mask.dim() < 2 or mask.shape[-1] != mask.shape[-2] or mask.shape[-1] < 2:
        return None
    hidden = mask < -1e3 if mask.dtype is not torch.bool else mask if name == "mask" else ~mask
    later = torch.ones(mask.shape[-2:], dtype=torch.bool).triu(1)
    return bool((hidden | ~later).all())


def _numbers(tensor: torch.Tensor) -> torch.Tensor | None:
    readable = content.local(tensor)
    if readable is None or readable.layout is not torch.strided or not readable.numel():
        return None
    return readable if readable.dtype.is_floating_point and readable.element_size() > 1 else None


# Random generators


GENERATORS = frozenset({"torch", "python", "numpy", "cuda"})
"""Names of the global generators."""
OF_TORCH = frozenset({"torch", "cuda"})
"""Those that functions of torch draw from."""


def random_states(names: Collection[str] = GENERATORS) -> dict[str, int]:
    """Hashes of these global generators: `torch` (CPU), `python`, `numpy` if the process imported it, and `cuda` if it
    uses CUDA and no graph is being captured.
    """
    found = {"torch": _of_torch(torch.default_generator)} if "torch" in names else {}
    if "python" in names:
        found["python"] = _of_python(random)
    numpy_random = sys.modules.get("numpy.random") if "numpy" in names else None
    if numpy_random is not None:
        found["numpy"] = _of_legacy_numpy(numpy_random)
    on_devices = cuda_generators.digest() if "cuda" in names else 0
    if on_devices:
        found["cuda"] = on_devices
    return found


def held_generators(thing: Any, depth: int = 3) -> int:
    """One hash of every random generator that an object holds as an attribute, to a depth; 0 when it holds none."""
    checksum = 0
    seen: set[int] = set()

    def walk(value: Any, left: int) -> None:
        nonlocal checksum
        if id(value) in seen:
            return
        seen.add(id(value))
        state = _state_of(value)
        if state:
            checksum = zlib.crc32(state.to_bytes(8, "little"), checksum)
        elif left and hasattr(value, "__dict__") and not isinstance(value, (type, torch.Tensor, torch.nn.Module)):
            for item in list(vars(value).values()):
                walk(item, left - 1)
        elif left and isinstance(value, (list, tuple)) and len(value) <= 32:
            for item in value:
                walk(item, left - 1)

    walk(thing, depth)
    return checksum


def _state_of(value: Any) -> int:
    kind = type(value)
    if isinstance(value, torch.Generator):
        return _of_torch(value)
    if isinstance(value, random.Random):
        return _of_python(value)
    if kind.__module__.startswith("numpy.random"):
        if hasattr(value, "bit_generator"):
            return _finish(repr(value.bit_generator.state).encode())
        if hasattr(value, "get_state"):
            return _of_legacy_numpy(value)
    return 0


def _of_torch(generator: torch.Generator) -> int:
    kind = generator.device.type
    if kind == "cuda":
        state = cuda_generators.state_of(generator)
        return 0 if state is None else cuda_generators.hashed([state])
    return content.digest(generator.get_state()) if kind == "cpu" else 0


def _of_python(generator: Any) -> int:
    # The last part, a cached Gaussian, is often None, whose hash differs between processes.
    return (hash(generator.getstate()[1]) & _MASK) or 1


def _of_legacy_numpy(generator: Any) -> int:
    name, keys, position, *_ = generator.get_state()
    return _finish(keys.tobytes(), int(position) + len(name))


def _finish(data: bytes, extra: int = 0) -> int:
    return (zlib.crc32(data) + (extra << 32)) & _MASK or 1
