"""Exact content hashes and states of tensors, read without disturbing them.

Small CPU tensors are hashed as bytes. Larger ones are reduced first: the bytes, taken as 64-bit integers in rows of 64,
are summed by columns (wrapping, hence exact and independent of the order of summation) over blocks of rows, and the
sums are hashed. On another device it is reduced there, and the sums alone are brought over. The same content always
gives the same number, in any process.
"""

from __future__ import annotations

import ctypes
import math
import struct
import zlib
from array import array
from typing import Any

import torch
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]  # not in its __all__

from . import walk
from .core import native

ABSENT, ZERO, NONZERO, NONFINITE, FALSE, TRUE, VALUE, UNSEEN = range(8)

SMALL = 16 * 1024
_COLUMNS = 64
_BLOCK_ROWS = 256
_SAMPLE = 1024
_MIX = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
PLAIN = {torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.nn.Parameter)}
"""Classes of tensors without a dispatch of their own."""
_COMMON = frozenset({
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex128, torch.complex64, torch.complex32,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
})  # fmt: skip
_SPARSE = frozenset({torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc})
SMALL_FLOATS = frozenset(
    getattr(torch, name)
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
    if hasattr(torch, name)
)
NUMBERS = _COMMON | SMALL_FLOATS | {torch.uint16, torch.uint32, torch.uint64}
"""Dtypes whose elements can be turned into numbers of another dtype."""
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_SCALAR_FORMATS = {torch.float32: "<f", torch.float64: "<d", torch.float16: "<e"}
_SIGN_OR_NOTHING = b"\x00\x80"
_functorch = torch._C._functorch
Lazy = UninitializedTensorMixin

# `ctypes.string_at` without the Python function around it.
_bytes_at: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)
_FEW = 4096
_SINGLY = 16
"""So many numbers of the CPU are read one by one, which takes less than to put them into one tensor."""
_ARRAYS = {torch.float32: "f", torch.float64: "d"}
_NEAR = 4 * 1024 * 1024
_MAX_VIEWS = 10_000
_views: dict[tuple[int, int], tuple[torch.Tensor | None, torch.Tensor | None]] = {}


def local(tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor whose memory can be read, `None` where there is none: tracing, `vmap`, meta and lazy tensors."""
    kind = type(tensor)
    if kind not in PLAIN:
        shard = getattr(tensor, "_local_tensor", None)
        if isinstance(shard, torch.Tensor):
            return local(shard)
        if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ or isinstance(tensor, Lazy):
            return None
    if _functorch.is_functorch_wrapped_tensor(tensor) or torch._is_functional_tensor(tensor):
        return None
    if tensor.is_nested or tensor.is_quantized or tensor.is_meta:
        return None
    if tensor.layout is torch.strided:
        return tensor if _has_memory(tensor) else None
    return tensor if tensor.layout in _SPARSE else None


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether it is a `DTensor`, of which every rank holds its own part."""
    return type(tensor) not in PLAIN and isinstance(getattr(tensor, "_local_tensor", None), torch.Tensor)


def placements(tensor: torch.Tensor) -> str:
    """How a `DTensor` lies on the dimensions of its mesh, as torch writes it, such as `Replicate(), Shard(0)`."""
    return ", ".join(
        f"{type(each).__name__.lstrip('_')}({getattr(each, 'dim', '')})" for each in getattr(tensor, "placements", ())
    )


def has_address(readable: torch.Tensor) -> bool:
    """Whether the address of a tensor, as `local` returns it, is one that no other tensor has at the same time."""
    return readable.is_cpu or readable.is_cuda


def _has_memory(tensor: torch.Tensor) -> bool:
    """Whether all elements lie within the storage. Offloading frees a storage under the tensors that use it."""
    held = tensor.untyped_storage().nbytes()
    offset = tensor.storage_offset()
    if not offset and tensor.is_contiguous():
        return held >= tensor.nbytes
    sizes = tensor.shape
    if 0 in sizes:
        return True
    last = sum((size - 1) * step for size, step in zip(sizes, tensor.stride(), strict=True))
    return held >= (offset + last + 1) * tensor.itemsize


def in_whole_numbers(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of a dtype that few operators know, with its bytes taken for integers; other tensors as they are."""
    if tensor.dtype in _COMMON:
        return tensor
    return tensor.view(_INTEGERS[tensor.itemsize])


def _is_block(tensor: torch.Tensor) -> bool:
    """Whether the elements are one block of CPU memory."""
    return tensor.is_cpu and tensor.layout is torch.strided and tensor.is_contiguous()


def finish(checksum: int, size: int) -> int:
    """The hash of so many bytes with a checksum; never 0."""
    return (((checksum + 1) * _MIX) ^ (size * 0x2545F4914F6CDD1D)) & _MASK or 1


def digest(tensor: torch.Tensor) -> int:
    """64-bit content hash, never 0. Call under `quiet()`; `tensor` comes from `local`."""
    if native is not None and (seen := native.look(tensor, False, NONZERO)) is not None:
        hashed: int = seen[1]
        return hashed
    if tensor.layout is not torch.strided:
        return _digest_sparse(tensor)
    size = tensor.nbytes
    if not size and tensor.is_cpu:
        return finish(0, 0)
    if _is_block(tensor) and (pointer := tensor.data_ptr()):
        if size <= SMALL:
            return finish(zlib.crc32(_bytes_at(pointer, size)), size)
        if not pointer % 8 and not tensor.is_conj() and not tensor.is_neg():
            return _digest_block(pointer, size)
    checksum = 0
    parts = reduced(tensor, small_as_whole=not tensor.is_cpu)
    if not tensor.is_cpu and len(parts) > 1:
        parts = [torch.cat(parts)]  # a checksum goes on from one to the next: it is that of all, brought over at once
    for part in parts:
        checksum = zlib.crc32(_bytes(part), checksum)
    return finish(checksum, size)


def reduced(tensor: torch.Tensor, *, small_as_whole: bool) -> list[torch.Tensor]:
    """The bytes that the hash of a strided tensor is the checksum of, where it lies: flat, of uint8, one part after
    the other. Call under `quiet()`. With `small_as_whole` they are those of one block in the CPU's memory.
    """
    tensor = in_whole_numbers(tensor)
    if tensor.is_conj() or tensor.is_neg() or not tensor.is_contiguous():
        tensor = tensor.resolve_conj().resolve_neg().contiguous()
    data = tensor.detach().reshape(-1)
    if data.storage_offset() * data.itemsize % 8:
        data = data.clone()
    data = data.view(torch.uint8) if data.dtype is not torch.bool else data.to(torch.uint8)
    row = _COLUMNS * 8
    size = data.numel()
    whole = 0 if size <= SMALL and small_as_whole else size // row
    parts = []
    if whole:
        rows = data[: whole * row].view(torch.int64).view(whole, _COLUMNS)
        blocks = whole // _BLOCK_ROWS
        if blocks:
            parts.append(rows[: blocks * _BLOCK_ROWS].view(blocks, _BLOCK_ROWS, _COLUMNS).sum(1).view(-1))
        if whole - blocks * _BLOCK_ROWS:
            parts.append(rows[blocks * _BLOCK_ROWS :].sum(0))
    flat = [part.view(torch.uint8) for part in parts]
    return [*flat, data[whole * row :]] if size > whole * row else flat


def _digest_block(pointer: int, size: int) -> int:
    """The same sums over memory in place, through views that are kept for the next look at the same memory."""
    row = _COLUMNS * 8
    whole = size // row
    views = _views.get((pointer, size))
    if views is None:
        if len(_views) >= _MAX_VIEWS:
            _views.clear()
        # Views of an address own nothing: they keep no memory alive, and are used only while a tensor holds it.
        memory = (ctypes.c_char * size).from_address(pointer)
        rows = torch.frombuffer(memory, dtype=torch.int64, count=whole * _COLUMNS).view(whole, _COLUMNS)
        blocks = whole // _BLOCK_ROWS
        rest = whole - blocks * _BLOCK_ROWS
        views = _views[pointer, size] = (
            rows[: blocks * _BLOCK_ROWS].view(blocks, _BLOCK_ROWS, _COLUMNS) if blocks else None,
            rows[blocks * _BLOCK_ROWS :] if rest else None,
        )
    checksum = 0
    if views[0] is not None:
        sums = torch.sum(views[0], 1)
        checksum = zlib.crc32(_bytes_at(sums.data_ptr(), whole // _BLOCK_ROWS * row))
    if views[1] is not None:
        sums = torch.sum(views[1], 0)
        checksum = zlib.crc32(_bytes_at(sums.data_ptr(), row), checksum)
    if size % row:
        checksum = zlib.crc32(_bytes_at(pointer + whole * row, size % row), checksum)
    return finish(checksum, size)


def _bytes(part: torch.Tensor) -> bytes:
    part = part.cpu() if not part.is_cpu else part
    return ctypes.string_at(part.data_ptr(), part.nbytes)


def _digest_sparse(tensor: torch.Tensor) -> int:
    if tensor.layout is torch.sparse_coo:
        parts = (tensor._indices(), tensor._values())
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = (tensor.crow_indices(), tensor.values())
    else:
        parts = (tensor.ccol_indices(), tensor.values())
    first, second = (digest(part) for part in parts)
    return (first * 31 + second) & _MASK or 1


def memory(tensor: torch.Tensor) -> memoryview:
    """The bytes of a contiguous tensor on the CPU."""
    return memoryview(_bytes_at(tensor.data_ptr(), tensor.nbytes))


Look = tuple[int, int, int, int, bytes]
"""One look at a tensor: state, digest, address, bytes, sample (empty where the memory cannot be read in place)."""


def look(tensor: torch.Tensor, finite: bool = False, state_known: int = 0) -> Look:
    """State (as `state` has it, unless `state_known`), digest and sample. Call under `quiet()`."""
    if native is not None and (found := native.look(tensor, finite, state_known)) is not None:
        seen: Look = found
        return seen
    if not _is_block(tensor) or not (size := tensor.nbytes) or not (pointer := tensor.data_ptr()):
        pointer = tensor.data_ptr() if tensor.layout is torch.strided else 0
        return state_known or state(tensor, finite), digest(tensor), pointer, 0, b""
    if size <= SMALL:
        head = raw = _bytes_at(pointer, size)
        hashed = finish(zlib.crc32(raw), size)
        sampled = raw if size <= _SAMPLE else raw[(size - _SAMPLE) // 2 :][:_SAMPLE]
    else:
        head = _bytes_at(pointer, 64)
        hashed = digest(tensor)
        sampled = _bytes_at(pointer + (size - _SAMPLE) // 2, _SAMPLE)
    if not state_known:
        # A bit other than a sign says that the numbers are not all zero.
        nonzero = not finite and head[:64].strip(_SIGN_OR_NOTHING)
        state_known = NONZERO if nonzero else state(tensor, finite)
    return state_known, hashed, pointer, size, sampled


def sample(pointer: int, size: int) -> bytes:
    """A kilobyte from the middle of `size` bytes of memory.

    Writes through `.data` and collectives do not move a tensor's version; this sees nearly all of them at no cost.
    """
    if size <= _SAMPLE:
        found: bytes = _bytes_at(pointer, size)
    else:
        found = _bytes_at(pointer + (size - _SAMPLE) // 2, _SAMPLE)
    return found


def state(tensor: torch.Tensor, finite: bool = False) -> int:
    """`ZERO`, `NONZERO` or `NONFINITE` (looked for only when `finite`), exactly. Call under `quiet()`."""
    if tensor.layout is not torch.strided:
        tensor = tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()
    if finite and tensor.dtype.is_floating_point and not all_finite(tensor):
        return NONFINITE
    if tensor.is_cpu and tensor.is_contiguous() and tensor.data_ptr():
        head = ctypes.string_at(tensor.data_ptr(), min(tensor.nbytes, 64))
        if head.strip(_SIGN_OR_NOTHING):
            return NONZERO  # a bit other than a sign is set, so the first numbers are not all zero
    return NONZERO if int(torch.count_nonzero(in_whole_numbers(tensor))) else ZERO


def surely_finite(tensor: torch.Tensor) -> bool:
    """Whether a small tensor in CPU memory is finite; read from memory, no operator runs. False: not known."""
    code = _ARRAYS.get(tensor.dtype)
    if code is None or type(tensor) not in PLAIN or not _is_block(tensor) or tensor.is_neg():
        return False
    if not 0 < tensor.nbytes <= _FEW or not (pointer := tensor.data_ptr()):
        return False
    # An infinity or NaN anywhere makes the sum one too.
    return math.isfinite(sum(array(code, _bytes_at(pointer, tensor.nbytes))))


def all_finite(tensor: torch.Tensor) -> bool:
    """Whether no element is infinite or NaN. Call under `quiet()`."""
    if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex) or not tensor.numel():
        return True
    if tensor.dtype.is_complex:
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.dtype not in _COMMON:
        if tensor.dtype not in SMALL_FLOATS:
            return True  # four bits have no room for an infinity
        tensor = tensor.to(torch.float32)
    # abs().sum() would overflow; the extremes carry every NaN and infinity.
    low, high = torch.aminmax(tensor)
    return math.isfinite(low.item()) and math.isfinite(high.item())


def number(value: Any) -> float | None:
    """The number in a result that is one floating-point number on the CPU; read from memory, no operator runs."""
    if type(value) is float:
        return value
    if not isinstance(value, torch.Tensor) or type(value) not in PLAIN or value.is_nested or value.numel() != 1:
        return None
    if value.device.type != "cpu" or value.layout is not torch.strided or not value.dtype.is_floating_point:
        return None
    if _functorch.is_functorch_wrapped_tensor(value) or torch._is_functional_tensor(value) or value.is_neg():
        return None
    pointer = value.data_ptr()
    if not pointer or not _has_memory(value):
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
    if native is not None and (found := native.nested(value, depth)) is not None:
        return int(found)
    return finish(_walk(value, 0, depth), 0)


def _walk(value: Any, checksum: int, depth: int) -> int:
    if issubclass(type(value), torch.Tensor):
        readable = local(value)
        return checksum if readable is None else zlib.crc32(digest(readable).to_bytes(8, "little"), checksum)
    if depth == 0:
        return checksum
    items = walk.sequence(value)
    if items is not None:
        for item in items:
            checksum = _walk(item, checksum, depth - 1)
        return checksum
    if id(type(value)) in PLAIN_VALUES:
        return zlib.crc32(walk.text_of(value).encode("utf-8", "backslashreplace"), checksum)
    if type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
        return zlib.crc32(value.tobytes(), checksum)
    named = walk.pairs(value)
    for name, item in walk.attributes(value) if named is None else named:
        checksum = _walk(item, zlib.crc32(name.encode("utf-8", "backslashreplace"), checksum), depth - 1)
    return checksum


# By `id`: a class may have a metaclass that says what it is equal to.
PLAIN_VALUES = frozenset(map(id, (type(None), str, int, float, bool, bytes)))


def norms(tensors: list[torch.Tensor]) -> list[float]:
    """L2 norms of floating-point or complex tensors. Call under `quiet()`.

    Those of float32 and float64 that lie in up to four megabytes on the CPU are summed in float64 and have 24 bits, so
    that it does not matter in which order that is done; others are found by torch, in one call per device.
    """
    result: list[float | None] = [None] * len(tensors) if native is None else native.norms(tensors)
    groups: dict[torch.device, list[int]] = {}
    for index, tensor in enumerate(tensors):
        if result[index] is not None:
            continue
        if tensor.layout is torch.strided and tensor.numel():
            if tensor.is_cpu and tensor.dtype in _ARRAYS and tensor.nbytes <= _NEAR:
                result[index] = _shortened(float(torch.linalg.vector_norm(tensor.detach(), dtype=torch.float64)))
            else:
                groups.setdefault(tensor.device, []).append(index)
        elif tensor.layout is torch.sparse_coo:
            result[index] = float(torch.linalg.vector_norm(tensor._values().to(torch.float64)))
    for indices in groups.values():
        values = _norms_of_device([tensors[index] for index in indices])
        for index, value in zip(indices, values, strict=True):
            result[index] = value
    return [math.nan if norm is None else norm for norm in result]


def _shortened(number: float) -> float:
    """With as many bits as float32 has, the nearest one."""
    if not math.isfinite(number):
        return number
    fraction, exponent = math.frexp(number)
    return math.ldexp(round(math.ldexp(fraction, 24)), exponent - 24)


def _norms_of_device(tensors: list[torch.Tensor]) -> list[float]:
    found = torch._foreach_norm(tensors)
    if (len(found) <= _SINGLY and found[0].is_cpu) or len({norm.dtype for norm in found}) > 1:
        return [float(norm) for norm in found]
    values: list[float] = torch.stack(found).tolist()
    return values
