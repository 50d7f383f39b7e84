"""What is to be known of many tensors of one GPU, in one pass over their bytes and one launch of a kernel.

The kernel is compiled when it is first wanted, by the compiler that comes with CUDA's runtime (NVRTC); where there is
none, `devices` asks torch's operators instead, some for each tensor, and finds the same.

It computes the hash of `digest`, checksums included: CRC-32 is linear, so that each block of threads adds what its part
contributes, times the power of x that stands for the bytes behind it.
"""

from __future__ import annotations

import ctypes
import math
import threading
from array import array
from collections.abc import Sequence

import torch

from . import digest as content
from .core import native
from .theirs import is_theirs

_KINDS = {
    torch.float32: 1,
    torch.complex64: 1,
    torch.float64: 2,
    torch.complex128: 2,
    torch.float16: 3,
    torch.complex32: 3,
    torch.bfloat16: 4,
    **dict.fromkeys((dtype for dtype in content.SMALL_FLOATS), -1),
}
"""How the kernel reads fractions: -1 for those that it cannot. All else is bytes to it."""
_INFINITE = ((1 << 64) - 1, 0x7F800000, 0x7FF0000000000000, 0x7C00, 0x7F80)
"""The least bits, without the sign, of what is not finite, by kind; bytes never are."""

_BLOCK = 512 * 256
"""Bytes of the rows that are summed up, as in `digest`."""
_THREADS = 256
_MOST = 1 << 30
"""Blocks of threads of one launch."""

_SOURCE = r"""
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

struct Entry { u64 pointer, bytes, first, kind; };

/* The product of two polynomials modulo that of CRC-32, the lowest power in the highest bit. */
__device__ u32 times(u32 one, u32 other)
{
    u32 product = 0;
    for (int bit = 0; bit < 32; bit++) {
        if (one & 0x80000000u) product ^= other;
        one <<= 1;
        other = other & 1 ? other >> 1 ^ 0xedb88320u : other >> 1;
    }
    return product;
}

/* What a checksum is worth with so many bytes behind it. */
__device__ u32 before(u32 checksum, u64 bytes, const u32 *powers)
{
    for (int place = 0; bytes; place++, bytes >>= 1)
        if (bytes & 1) checksum = times(checksum, powers[place]);
    return checksum;
}

__device__ u32 add(u32 checksum, u8 byte)
{
    checksum ^= byte;
    for (int bit = 0; bit < 8; bit++) checksum = checksum & 1 ? checksum >> 1 ^ 0xedb88320u : checksum >> 1;
    return checksum;
}

__device__ float of_half(u16 bits)
{
    u32 exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 31) return __int_as_float(0x7f800000 | fraction << 13);
    if (exponent) return __int_as_float((exponent + 112) << 23 | fraction << 13);
    return (float)fraction * 5.9604644775390625e-08f;
}

struct Sizes { u64 largest; double squares; };

__device__ void note(Sizes *sizes, u64 bits, double number)
{
    if (bits > sizes->largest) sizes->largest = bits;
    sizes->squares += number * number;
}

/* Eight bytes of numbers. */
__device__ void look(Sizes *sizes, u64 word, int kind)
{
    if (kind == 0) {
        note(sizes, word != 0, 0);
    } else if (kind == 1) {
        for (int part = 0; part < 2; part++, word >>= 32) {
            u32 bits = (u32)word & 0x7fffffffu;
            note(sizes, bits, __int_as_float(bits));
        }
    } else if (kind == 2) {
        word &= 0x7fffffffffffffffull;
        note(sizes, word, __longlong_as_double(word));
    } else {
        for (int part = 0; part < 4; part++, word >>= 16) {
            u32 bits = (u32)word & 0x7fffu;
            note(sizes, bits, kind == 3 ? of_half(bits) : __int_as_float(bits << 16));
        }
    }
}

/* Some bytes, which need not lie at a multiple of eight: the part of each thread's checksum. */
__device__ u32 few(Sizes *sizes, const u8 *bytes, u32 size, int kind, const u32 *powers)
{
    u32 each = ((size + blockDim.x - 1) / blockDim.x + 7) / 8 * 8, begin = threadIdx.x * each;
    u32 end = begin + each < size ? begin + each : size, checksum = 0;
    if (begin >= size) return 0;
    for (u32 place = begin; place < end; place += 8) {
        u64 word = 0;
        for (u32 byte = 0; byte < 8 && place + byte < end; byte++) {
            checksum = add(checksum, bytes[place + byte]);
            word |= (u64)bytes[place + byte] << 8 * byte;
        }
        look(sizes, word, kind);
    }
    return before(checksum, size - end, powers);
}

extern "C" __global__ void traincheck_look(const Entry *entries, int count, const u32 *powers, u64 *found,
                                           double *squares)
{
    __shared__ u64 parts[256];
    __shared__ double sums[256];
    __shared__ u32 checksum;
    int low = 0, high = count - 1, thread = threadIdx.x;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (entries[middle].first <= blockIdx.x) low = middle;
        else high = middle - 1;
    }
    const Entry entry = entries[low];
    const u8 *bytes = (const u8 *)entry.pointer;
    const int kind = (int)entry.kind;
    const u64 local = blockIdx.x - entry.first;
    Sizes sizes = {0, 0};
    u32 own = 0;
    u64 length = entry.bytes, behind = 0;
    if (thread == 0) checksum = 0;
    if (length <= 16384) {
        own = few(&sizes, bytes, (u32)length, kind, powers);
    } else {
        const u64 whole = length / 512, blocks = whole / 256, tail = length % 512;
        const u64 base = local * 256 * 512, rows = local < blocks ? 256 : whole % 256;
        const u64 *words = (const u64 *)(bytes + base);
        u64 sum = 0;
        length = blocks * 512 + (whole % 256 ? 512 : 0) + tail;
        if (local < blocks) behind = length - (local + 1) * 512;
        for (u64 row = thread / 64; row < rows; row += 4) {
            u64 word = words[row * 64 + thread % 64];
            sum += word;
            look(&sizes, word, kind);
        }
        parts[thread] = sum;
        __syncthreads();
        if (thread < 64 && rows) {
            sum = parts[thread] + parts[thread + 64] + parts[thread + 128] + parts[thread + 192];
            for (int byte = 0; byte < 8; byte++) own = add(own, (u8)(sum >> 8 * byte));
            own = before(own, (63 - thread) * 8, powers);
        }
        if (local == blocks && tail) {
            own = before(own, tail, powers);
            own ^= few(&sizes, bytes + base + rows * 512, (u32)tail, kind, powers);
        }
    }
    sums[thread] = sizes.squares;
    __syncthreads();
    if (own) atomicXor(&checksum, own);
    parts[thread] = sizes.largest;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (thread < half) {
            sums[thread] += sums[thread + half];
            if (parts[thread + half] > parts[thread]) parts[thread] = parts[thread + half];
        }
        __syncthreads();
    }
    if (thread == 0) {
        u32 part = before(checksum, behind, powers);
        if (local == 0) part ^= before(0xffffffffu, length, powers) ^ 0xffffffffu;
        atomicXor(found + 2 * low, (u64)part);
        atomicMax(found + 2 * low + 1, parts[0]);
        squares[blockIdx.x] = sums[0];
    }
}
"""


Seen = tuple[int, int, int, float]
"""What a tensor holds: its state (`NONFINITE` wherever a number is not finite), content hash, address, and L2 norm (NaN
where it was not asked for, and of whole numbers).
"""


def looks(tensors: list[torch.Tensor], norms: bool) -> dict[int, Seen] | None:
    """Of those tensors that lie on a GPU, by their `id`. `None` where `look_at` has to do it, as where there is no
    compiled core, or where they lie on several GPUs. Waits for the GPU once. Call under `quiet()`.
    """
    told = None if native is None else native.gpu_entries(tensors, _KINDS)
    if told is None:
        return None
    device, entries, count = told
    if not count:
        return {}
    kernel = _kernel_of(device) if count < _MOST else None
    if kernel is None:
        return None
    found: dict[int, Seen] = native.gpu_found(tensors, entries, *kernel.run(entries, count, norms))
    return found


def look_at(tensors: Sequence[torch.Tensor], norms: bool) -> list[Seen] | None:
    """Of tensors of one GPU; `None` where torch is to be asked. Waits for the GPU once. Call under `quiet()`."""
    kernel = _kernel_of(tensors[0].device.index)
    if kernel is None or not all(_KINDS.get(tensor.dtype, 0) >= 0 for tensor in tensors):
        return None
    blocks = [_block(tensor) for tensor in tensors]
    entries: list[int] = []
    firsts, count = [], 0
    for tensor in blocks:
        size = tensor.nbytes
        firsts.append(count)
        if size:
            entries += (tensor.data_ptr(), size, count, _KINDS.get(tensor.dtype, 0))
            count += 1 if size <= content.SMALL else -(-size // _BLOCK)
    firsts.append(count)
    if count >= _MOST:
        return None
    told = kernel.run(array("Q", entries).tobytes(), count, norms) if count else (b"", b"")
    numbers, squares = array("Q", told[0]), array("d", told[1])
    results: list[Seen] = []
    place = 0
    for number, (tensor, block) in enumerate(zip(tensors, blocks, strict=True)):
        if not block.nbytes:
            results.append((content.ZERO, content.finish(0, 0), tensor.data_ptr(), 0.0 if norms else math.nan))
            continue
        checksum, largest = numbers[place : place + 2]
        place += 2
        kind = _KINDS.get(block.dtype, 0)
        state = content.ZERO if not largest else content.NONFINITE if largest >= _INFINITE[kind] else content.NONZERO
        norm = math.nan
        if kind and norms:
            total = 0.0
            for part in squares[firsts[number] : firsts[number + 1]]:
                total += part  # `sum` does more than the core
            norm = math.sqrt(total)
        results.append((state, content.finish(checksum, block.nbytes), tensor.data_ptr(), norm))
    return results


def _block(tensor: torch.Tensor) -> torch.Tensor:
    """The same content in one block of memory that the kernel can read."""
    if tensor.is_conj() or tensor.is_neg() or not tensor.is_contiguous():
        tensor = tensor.resolve_conj().resolve_neg().contiguous()
    if tensor.nbytes > content.SMALL and tensor.data_ptr() % 8:
        tensor = tensor.clone()
    return tensor


# The kernel


class _Room:
    """Memory of the GPU, and as much of the CPU that it can be copied from and to while other work goes on. Both are
    kept, so that nothing is allocated where nothing grows.
    """

    def __init__(self, device: int) -> None:
        self._device = device
        self.size = 0
        self.there = self.here = 0
        """Addresses."""

    def reserve(self, size: int) -> None:
        """Room for so many bytes; what was there is lost if it grows."""
        if size > self.size:
            size = 1 << (size - 1).bit_length()
            self._memory = torch.empty(size, dtype=torch.uint8, device=self._device)
            self._pinned = torch.empty(size, dtype=torch.uint8, pin_memory=True)
            self.size, self.there, self.here = size, self._memory.data_ptr(), self._pinned.data_ptr()


class _Kernel:
    """The kernel on one GPU. One look at a time: it ends before another one begins, in the order of work of its caller.

    The driver is called itself: an operator of torch takes several times as long as what is done here.
    """

    def __init__(self, device: int, cubin: bytes) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._device = device
        self._lock = threading.Lock()
        self._entries, self._found = _Room(device), _Room(device)
        self._asked = b""
        self._function = ctypes.c_void_p()
        self._given = tuple(kind() for kind in (_P, ctypes.c_int, _P, _P, _P))
        self._places = (_P * len(self._given))(*map(ctypes.addressof, self._given))
        module = ctypes.c_void_p()
        with torch.cuda.device(device):
            self._powers = torch.tensor(_powers(), dtype=torch.int64).to(torch.int32).to(device)
            _done(self._driver.cuModuleLoadData(ctypes.byref(module), cubin))
            _done(self._driver.cuModuleGetFunction(ctypes.byref(self._function), module, b"traincheck_look"))
        self._given[2].value = self._powers.data_ptr()

    def run(self, entries: bytes, count: int, norms: bool) -> tuple[bytes, bytes]:
        """Look at what `entries` say, four numbers each, with so many blocks of threads: two numbers of each entry, and
        with `norms` the sum of squares of each block. All numbers have 64 bits.
        """
        if torch.cuda.current_device() == self._device:
            return self._run(entries, count, norms)
        with torch.cuda.device(self._device):
            return self._run(entries, count, norms)

    def _run(self, entries: bytes, count: int, norms: bool) -> tuple[bytes, bytes]:
        call, filled = self._driver, len(entries) // 32
        stream = _P(torch.cuda.current_stream(self._device).cuda_stream)
        looks, squares = 16 * filled, 8 * count
        with self._lock:
            self._found.reserve(looks + squares)
            if entries != self._asked:
                self._entries.reserve(len(entries))
                # Nobody reads what is there: the look before this one has been waited for.
                ctypes.memmove(self._entries.here, entries, len(entries))
                there, here = _P(self._entries.there), _P(self._entries.here)
                _done(call.cuMemcpyHtoDAsync_v2(there, here, _S(len(entries)), stream))
                self._asked = entries
            given, found = self._given, self._found
            given[0].value, given[1].value = self._entries.there, filled
            given[3].value, given[4].value = found.there, found.there + looks
            _done(call.cuMemsetD8Async(_P(found.there), 0, _S(looks), stream))
            shape = (count, 1, 1, _THREADS, 1, 1)
            _done(call.cuLaunchKernel(self._function, *shape, 0, stream, self._places, None))
            wanted = looks + squares if norms else looks
            _done(call.cuMemcpyDtoHAsync_v2(_P(found.here), _P(found.there), _S(wanted), stream))
            _done(call.cuStreamSynchronize(stream))
            return ctypes.string_at(found.here, looks), ctypes.string_at(found.here + looks, wanted - looks)


_P, _S = ctypes.c_void_p, ctypes.c_size_t
_kernels: dict[int, _Kernel | None] = {}


def _kernel_of(device: int) -> _Kernel | None:
    if device not in _kernels:
        try:
            _kernels[device] = _Kernel(device, _compiled(device)) if torch.version.hip is None else None
        except (OSError, RuntimeError, AttributeError) as error:
            if is_theirs(error):
                raise
            _kernels[device] = None
    return _kernels[device]


def _done(status: int) -> None:
    if status:
        raise RuntimeError(f"CUDA says {status}")


def _compiled(device: int) -> bytes:
    """The kernel as code of a GPU. Raises `OSError` where there is no compiler, `RuntimeError` where it fails."""
    major = str(torch.version.cuda).partition(".")[0]
    compiler = ctypes.CDLL(f"libnvrtc.so.{major}")
    capability = "{}{}".format(*torch.cuda.get_device_capability(device))
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    _done(compiler.nvrtcCreateProgram(ctypes.byref(program), _SOURCE.encode(), b"traincheck.cu", 0, None, None))
    try:
        options = (ctypes.c_char_p * 1)(f"--gpu-architecture=sm_{capability}".encode())
        _done(compiler.nvrtcCompileProgram(program, 1, options))
        _done(compiler.nvrtcGetCUBINSize(program, ctypes.byref(size)))
        cubin = ctypes.create_string_buffer(size.value)
        _done(compiler.nvrtcGetCUBIN(program, cubin))
        return cubin.raw
    finally:
        compiler.nvrtcDestroyProgram(ctypes.byref(program))


def _powers() -> list[int]:
    """x to the power of 8 times 1, 2, 4, ..., modulo the polynomial of CRC-32."""
    found = [1 << 23]
    while len(found) < 48:
        found.append(_times(found[-1], found[-1]))
    return found


def _times(one: int, other: int) -> int:
    product = 0
    for bit in range(31, -1, -1):
        if one >> bit & 1:
            product ^= other
        other = other >> 1 ^ 0xEDB88320 if other & 1 else other >> 1
    return product
