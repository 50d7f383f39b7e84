"""Exact content hashes and states of tensors, read without disturbing them.

Small CPU tensors are hashed as bytes. Larger ones are reduced first: the bytes, taken as 64-bit integers in rows of 64,
are summed by columns (wrapping, hence exact and independent of the order of summation) over blocks of rows, and the
sums are hashed. The same content always gives the same number, in any process.
"""

from __future__ import annotations

import ctypes
import math
import struct
import zlib
from typing import Any

import torch
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

ABSENT, ZERO, NONZERO, NONFINITE, FALSE, TRUE, VALUE, UNSEEN = range(8)

SMALL = 16 * 1024
_COLUMNS = 64
_BLOCK_ROWS = 256
_SAMPLE = 1024
_MIX = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_PLAIN = {torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.nn.Parameter)}
_SCALAR_FORMATS = {torch.float32: "<f", torch.float64: "<d", torch.float16: "<e"}
_SIGN_OR_NOTHING = b"\x00\x80"
_functorch = torch._C._functorch


def local(tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor whose memory can be read, `None` where there is none: tracing, `vmap`, meta and lazy tensors."""
    kind = type(tensor)
    if kind not in _PLAIN:
        shard = getattr(tensor, "_local_tensor", None)
        if isinstance(shard, torch.Tensor):
            return local(shard)
        if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ or isinstance(
            tensor, UninitializedTensorMixin
        ):
            return None
    if _functorch.is_functorch_wrapped_tensor(tensor) or torch._is_functional_tensor(tensor):
        return None
    if tensor.is_nested or tensor.is_quantized or tensor.device.type == "meta":
        return None
    return tensor


def _raw(tensor: torch.Tensor) -> bytes | None:
    """The bytes of a small contiguous CPU tensor."""
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided or not tensor.is_contiguous():
        return None
    pointer = tensor.data_ptr()
    size = tensor.nbytes
    if size == 0 or pointer == 0 or size > SMALL:
        return b"" if size == 0 else None
    return ctypes.string_at(pointer, size)


def _finish(checksum: int, size: int) -> int:
    return (((checksum + 1) * _MIX) ^ (size * 0x2545F4914F6CDD1D)) & _MASK or 1


def digest(tensor: torch.Tensor) -> int:
    """64-bit content hash, never 0. Call under `quiet()`; `tensor` comes from `local`."""
    raw = _raw(tensor)
    if raw is not None:
        return _finish(zlib.crc32(raw), len(raw))
    if tensor.layout is not torch.strided:
        return _digest_sparse(tensor)
    size = tensor.nbytes
    if tensor.is_conj() or tensor.is_neg() or not tensor.is_contiguous():
        tensor = tensor.resolve_conj().resolve_neg().contiguous()
    data = tensor.detach().reshape(-1)
    if data.storage_offset() * data.itemsize % 8:
        data = data.clone()
    data = data.view(torch.uint8) if data.dtype is not torch.bool else data.to(torch.uint8)
    row = _COLUMNS * 8
    whole = size // row
    tail = size - whole * row
    parts = []
    if whole:
        rows = data[: whole * row].view(torch.int64).view(whole, _COLUMNS)
        blocks = whole // _BLOCK_ROWS
        if blocks:
            parts.append(rows[: blocks * _BLOCK_ROWS].view(blocks, _BLOCK_ROWS, _COLUMNS).sum(1).view(-1))
        if whole - blocks * _BLOCK_ROWS:
            parts.append(rows[blocks * _BLOCK_ROWS :].sum(0))
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(_bytes(part), checksum)
    if tail:
        checksum = zlib.crc32(_bytes(data[whole * row :]), checksum)
    return _finish(checksum, size)


def _bytes(part: torch.Tensor) -> bytes:
    part = part.cpu() if part.device.type != "cpu" else part
    return ctypes.string_at(part.data_ptr(), part.nbytes)


def _digest_sparse(tensor: torch.Tensor) -> int:
    if tensor.layout is torch.sparse_coo:
        parts = (tensor._indices(), tensor._values())
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = (tensor.crow_indices(), tensor.values())
    else:
        return 1
    first, second = (digest(part) for part in parts)
    return (first * 31 + second) & _MASK or 1


def sample(tensor: torch.Tensor) -> int:
    """Checksum of a kilobyte from the middle of a CPU tensor.

    Writes through `.data` and collectives do not move a tensor's version; this sees nearly all of them at no cost.
    """
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided or not tensor.is_contiguous():
        return 0
    pointer, size = tensor.data_ptr(), tensor.nbytes
    if not pointer or not size:
        return 0
    if size <= _SAMPLE:
        return zlib.crc32(ctypes.string_at(pointer, size))
    return zlib.crc32(ctypes.string_at(pointer + (size - _SAMPLE) // 2, _SAMPLE))


def state(tensor: torch.Tensor, finite: bool = False) -> int:
    """`ZERO`, `NONZERO` or `NONFINITE` (looked for only when `finite`), exactly. Call under `quiet()`."""
    if tensor.layout is not torch.strided:
        tensor = tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()
    if finite and tensor.dtype.is_floating_point and not all_finite(tensor):
        return NONFINITE
    if tensor.device.type == "cpu" and tensor.is_contiguous() and tensor.data_ptr():
        head = ctypes.string_at(tensor.data_ptr(), min(tensor.nbytes, 64))
        if head.strip(_SIGN_OR_NOTHING):
            return NONZERO  # a bit other than a sign is set, so the first numbers are not all zero
    return NONZERO if int(torch.count_nonzero(tensor)) else ZERO


def all_finite(tensor: torch.Tensor) -> bool:
    """Whether no element is infinite or NaN. Call under `quiet()`."""
    if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex) or not tensor.numel():
        return True
    if tensor.dtype.is_complex:
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.element_size() == 1:
        tensor = tensor.to(torch.float32)
    # abs().sum() would overflow; the extremes carry every NaN and infinity.
    low, high = torch.aminmax(tensor)
    return bool(torch.isfinite(low) & torch.isfinite(high))


def number(value: Any) -> float | None:
    """The number in a result that is one floating-point number on the CPU; read from memory, no operator runs."""
    if type(value) is float:
        return value
    if not isinstance(value, torch.Tensor) or type(value) not in _PLAIN or value.is_nested or value.numel() != 1:
        return None
    if value.device.type != "cpu" or value.layout is not torch.strided or not value.dtype.is_floating_point:
        return None
    if _functorch.is_functorch_wrapped_tensor(value) or torch._is_functional_tensor(value) or value.is_neg():
        return None
    pointer = value.data_ptr()
    if not pointer:
        return None
    if value.dtype is torch.bfloat16:
        (upper,) = struct.unpack("<H", ctypes.string_at(pointer, 2))
        (result,) = struct.unpack("<f", struct.pack("<I", upper << 16))
        return float(result)
    layout = _SCALAR_FORMATS.get(value.dtype)
    if layout is None:
        return None
    return float(struct.unpack(layout, ctypes.string_at(pointer, value.element_size()))[0])


def digest_nested(value: Any, depth: int = 6) -> int:
    """Content hash of a batch: containers are walked, tensors and arrays hashed, the rest by its text."""
    return _finish(_walk(value, 0, depth), 0)


def _walk(value: Any, checksum: int, depth: int) -> int:
    if isinstance(value, torch.Tensor):
        readable = local(value)
        return checksum if readable is None else zlib.crc32(digest(readable).to_bytes(8, "little"), checksum)
    if depth == 0:
        return checksum
    if isinstance(value, dict) or (hasattr(value, "keys") and hasattr(value, "__getitem__")):
        for name in list(value.keys()):
            checksum = _walk(value[name], zlib.crc32(str(name).encode(), checksum), depth - 1)
        return checksum
    if isinstance(value, (list, tuple)):
        for item in value:
            checksum = _walk(item, checksum, depth - 1)
        return checksum
    if value is None or isinstance(value, (str, int, float, bool, bytes)):
        return zlib.crc32(repr(value).encode(), checksum)
    if type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
        return zlib.crc32(value.tobytes(), checksum)
    if hasattr(value, "__dict__"):
        return _walk(dict(vars(value)), checksum, depth - 1)
    return checksum


def norms(tensors: list[torch.Tensor]) -> list[float]:
    """L2 norms of strided floating-point or complex tensors, in one call per device. Call under `quiet()`."""
    result = [math.nan] * len(tensors)
    groups: dict[torch.device, list[int]] = {}
    for index, tensor in enumerate(tensors):
        if tensor.layout is torch.strided and tensor.numel():
            groups.setdefault(tensor.device, []).append(index)
        elif tensor.layout is torch.sparse_coo:
            result[index] = float(torch.linalg.vector_norm(tensor._values().to(torch.float64)))
    for indices in groups.values():
        found = torch._foreach_norm([tensors[index] for index in indices])
        same = len({norm.dtype for norm in found}) == 1
        values = torch.stack(found).tolist() if same else [float(norm) for norm in found]
        for index, value in zip(indices, values, strict=True):
            result[index] = value
    return result
