"""A few numbers that stand for a whole tensor: norm, mean and fixed random projections, in float64.

A projection is the sum of all elements, each with a sign. The signs are fixed: they depend on an element's place in the
logical order of the tensor alone, so the same content gives the same numbers in every process and under every memory
format. For two tensors x and y the mean of the squared differences of their projections estimates ||x - y||^2
(Achlioptas, "Database-friendly random projections", 2003), which norm and mean alone cannot tell.

Masks write -1e4, -1e9, the least number of a dtype or minus infinity among ordinary numbers, and nothing else would be
seen of a tensor beside them. Such elements count as zero, and a hash says which they are.
"""

from __future__ import annotations

import hashlib
import math

import torch

from . import digest as content

PROJECTIONS = 4
LARGEST = 1 << 24
"""Elements of a tensor that are looked at: of a larger one, as many that are evenly spaced."""

_ROW = 4096
EXTREME, _UNUSUAL = 9000.0, 1000.0
"""A number is extreme when it is this large, and this many times as large as what is usual beside it."""

_FAINT = 1e-4

Sketch = tuple[int, int, float, float, tuple[float, float, float, float]]
"""Elements, a hash (of the content of whole numbers, of which elements are extreme; 0 where none are), norm, mean,
projections.
"""

_NOTHING = (0.0, 0.0, 0.0, 0.0)
_signs: dict[tuple[str, torch.device], torch.Tensor] = {}


def sketch(tensor: torch.Tensor) -> Sketch | None:
    """The numbers of a tensor; `None` where its memory cannot be read. Call under `quiet()`."""
    readable = content.local(tensor)
    if readable is None or readable.layout is not torch.strided or readable.is_mps:
        return None  # MPS has no float64
    size = readable.numel()
    if readable.dtype not in content.NUMBERS:
        readable = content.in_whole_numbers(readable)
    exact = not (readable.dtype.is_floating_point or readable.dtype.is_complex)
    hashed = content.digest(readable) if exact else 0
    if not size:
        return 0, hashed, 0.0, 0.0, _NOTHING
    data = readable.detach()
    if data.dtype.is_complex:
        data = torch.view_as_real(data.resolve_conj().resolve_neg())
    flat = data.reshape(-1)
    if flat.numel() > LARGEST:
        flat = flat[:: -(-flat.numel() // LARGEST)]
    numbers = flat.to(torch.float64)
    if not exact and size > 1:
        numbers, hashed = _without_extremes(numbers)
    norm, mean, *projections = _numbers(numbers)
    first, second, third, fourth = projections
    return size, hashed, norm, mean, (first, second, third, fourth)


def _without_extremes(numbers: torch.Tensor) -> tuple[torch.Tensor, int]:
    """The numbers with zero in place of those that are there to mask others, and a hash of which those are."""
    sizes = numbers.abs()
    largest = float(sizes.max())
    if largest < EXTREME:
        return numbers, 0
    rest = sizes < EXTREME
    count = int(rest.sum())
    if not count:
        return numbers, 0
    usual = float(torch.where(rest, numbers, 0.0).norm()) / math.sqrt(count)
    # A comparison with NaN is false, so NaN is extreme like an infinity.
    ordinary = sizes < max(EXTREME, _UNUSUAL * usual)
    if bool(ordinary.all()):
        return numbers, 0
    marks = torch.where(ordinary, 0, torch.where(numbers < 0, 1, 2)).to(torch.uint8)
    return torch.where(ordinary, numbers, 0.0), content.digest(marks)


def _numbers(flat: torch.Tensor) -> list[float]:
    count = flat.numel()
    columns = _signs_of("columns", flat.device)
    whole = count // _ROW
    if not whole:
        projected = flat @ columns[:count]
    else:
        rows = _signs_of("rows", flat.device)
        projected = ((flat[: whole * _ROW].view(whole, _ROW) @ columns) * rows[:whole]).sum(0)
        if count > whole * _ROW:
            projected += (flat[whole * _ROW :] @ columns[: count - whole * _ROW]) * rows[whole]
    scale = torch.stack([torch.linalg.vector_norm(flat), flat.mean()])
    found: list[float] = torch.cat([scale, projected]).tolist()
    return [value if math.isfinite(value) else math.nan for value in found]


def faint(tensor: torch.Tensor) -> int:
    """How many elements are not zero and yet a ten-thousandth of the usual size: what is left where sums cancel.

    Call under `quiet()`.
    """
    readable = content.local(tensor)
    if readable is None or readable.layout is not torch.strided or not readable.dtype.is_floating_point:
        return 0
    sizes = readable.detach().abs()
    usual = float(torch.linalg.vector_norm(sizes.float())) / math.sqrt(max(sizes.numel(), 1))
    return int(((sizes < _FAINT * usual) & (sizes > 0)).sum())


def _signs_of(kind: str, device: torch.device) -> torch.Tensor:
    """+1 and -1 of shape (n, `PROJECTIONS`), the same in every version of torch and Python."""
    found = _signs.get((kind, device))
    if found is None:
        count = _ROW if kind == "columns" else LARGEST // _ROW + 1
        bits = hashlib.shake_128(f"sketch {kind}".encode()).digest(count * PROJECTIONS // 8 + 1)
        table = torch.frombuffer(bytearray(bits), dtype=torch.uint8)
        places = torch.arange(8, dtype=torch.uint8)
        signs = ((table[:, None] >> places) & 1).to(torch.float64).view(-1)[: count * PROJECTIONS]
        found = _signs[kind, device] = (signs * 2 - 1).view(count, PROJECTIONS).to(device)
    return found
