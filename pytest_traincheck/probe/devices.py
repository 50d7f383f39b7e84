"""Looks at tensors that lie in the memory of another device, many at a time.

To read a number of such a device waits until it has done all that was asked of it before. So what is to be known of
many tensors is reduced where they lie, put together there, and brought over at once; and what a call has returned is
written into its row when something is brought over anyway.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from . import digest as content
from . import gpu
from .context import ThreadState, quiet, unobservable
from .gpu import Seen
from .theirs import is_theirs
from .writer import TraceWriter

_MOST = 64
"""Numbers that wait at most; then the device is waited for."""


def is_far(tensor: torch.Tensor) -> bool:
    """Whether to read from a tensor, as `digest.local` returns it, is to wait for a device."""
    return tensor.is_cuda and tensor.layout is torch.strided


def number(state: ThreadState, value: Any) -> float | None:
    """The number in a result that is one floating-point number, wherever it is; another device is waited for."""
    found = content.number(value)
    if found is not None or type(value) not in content.PLAIN or not value.is_cuda or unobservable():
        return found
    if value.numel() != 1 or not value.dtype.is_floating_point or content.local(value) is None:
        return None
    with quiet(state):
        return float(value.detach().item())


def as_look(seen: Seen, finite: bool, known: int) -> content.Look:
    """What was seen as `digest.look` returns it."""
    state, hashed, pointer, _ = seen
    if state == content.NONFINITE and not finite:
        state = content.NONZERO
    return known or state, hashed, pointer, 0, b""


def look_at(tensors: Sequence[torch.Tensor], norms: bool = False) -> list[Seen]:
    """What tensors of one device hold, strided ones as `digest.local` returns them. Waits for the device once. Call
    under `quiet()`.
    """
    found = gpu.look_at(tensors, norms) if tensors[0].is_cuda else None
    return _by_operators(tensors, norms) if found is None else found


def _by_operators(tensors: Sequence[torch.Tensor], norms: bool) -> list[Seen]:
    parts = [content.reduced(tensor, small_as_whole=True) for tensor in tensors]
    order, numbers = _numbers(tensors, norms)
    together = torch.cat([part for own in parts for part in own] + [numbers.view(torch.uint8)]).cpu()
    data = content.memory(together)
    values: list[float] = together[together.numel() - numbers.nbytes :].clone().view(torch.float64).tolist()
    largest = dict(zip(order, values, strict=False))
    lengths = dict(zip(order, values[len(order) :], strict=False))
    found, begin = [], 0
    for place, (tensor, own) in enumerate(zip(tensors, parts, strict=True)):
        end = begin + sum(part.numel() for part in own)
        most = largest.get(place, 0.0)
        state = content.NONFINITE if not math.isfinite(most) else content.NONZERO if most else content.ZERO
        hashed = content.finish(zlib.crc32(data[begin:end]), tensor.nbytes)
        found.append((state, hashed, tensor.data_ptr(), lengths.get(place, math.nan)))
        begin = end
    return found


def _numbers(tensors: Sequence[torch.Tensor], norms: bool) -> tuple[list[int], torch.Tensor]:
    """The places of tensors that are not empty, and of each the largest size of a number (NaN where there is one), then
    with `norms` the L2 norms in the same order: one tensor of float64.
    """
    groups: dict[torch.dtype, list[int]] = {}
    for place, tensor in enumerate(tensors):
        if tensor.numel():
            groups.setdefault(tensor.dtype, []).append(place)
    order = [place for places in groups.values() for place in places]
    largest, lengths = [], []
    for dtype, places in groups.items():
        own = [_as_fractions(tensors[place]) for place in places]
        if own[0].dtype.is_floating_point:
            largest.append(torch.stack(torch._foreach_norm(own, math.inf)).to(torch.float64))
        else:
            largest.append(torch.stack([torch.count_nonzero(tensor) for tensor in own]).to(torch.float64))
        if norms and (dtype.is_floating_point or dtype.is_complex):
            lengths.append(torch.stack(torch._foreach_norm(own)).to(torch.float64))
        elif norms:
            lengths.append(largest[-1] * math.nan)
    device = tensors[0].device
    return order, torch.cat([torch.empty(0, dtype=torch.float64, device=device), *largest, *lengths])


def _as_fractions(tensor: torch.Tensor) -> torch.Tensor:
    """Numbers that norms can be taken of, where a tensor has such; else something that is zero where it is."""
    if tensor.dtype.is_complex:
        return torch.view_as_real(tensor.detach().resolve_conj())
    if tensor.dtype.is_floating_point and tensor.itemsize == 1 and tensor.dtype in content.NUMBERS:
        return tensor.detach().to(torch.float32)
    return content.in_whole_numbers(tensor.detach())


class Waiting:
    """Numbers of calls that are on their way: rows are written without them and completed later."""

    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self._numbers: list[torch.Tensor] = []
        self._rows: list[tuple[int, bool]] = []
        self._streams: list[torch.cuda.Stream] = []
        """Where they are computed."""

    def value(self, seq: int, number: torch.Tensor) -> None:
        """What the call that began at `seq` has returned: one number on another device. Call under `quiet()`."""
        self._add(seq, number.detach().reshape(()).to(torch.float64, copy=True), True)

    def finite(self, seq: int, tensor: torch.Tensor) -> None:
        """What it has returned, of which it is to be told whether it is finite. Call under `quiet()`."""
        if tensor.numel() and (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
            largest = torch.linalg.vector_norm(_as_fractions(tensor), math.inf)
            self._add(seq, largest.to(torch.float64), False)

    def _add(self, seq: int, number: torch.Tensor, is_value: bool) -> None:
        self._numbers.append(number)
        self._rows.append((seq, is_value))
        stream = torch.cuda.current_stream(number.device)
        if stream not in self._streams:
            self._streams.append(stream)

    def __bool__(self) -> bool:
        return bool(self._rows)

    @property
    def full(self) -> bool:
        """Whether so many wait that they should be written before others come."""
        return len(self._rows) >= _MOST

    def write(self) -> None:
        """Complete the rows. Waits for the devices. Call under `quiet()`."""
        numbers, self._numbers = self._numbers, []
        rows, self._rows = self._rows, []
        streams, self._streams = self._streams, []
        if not rows:
            return
        try:
            for stream in streams:
                if stream != torch.cuda.current_stream(stream.device):
                    stream.synchronize()
            values = _brought(numbers)
        except RuntimeError as error:
            if is_theirs(error):
                raise
            # The device has failed, which is not for the probe to say.
            self._writer.leave_out("numbers that a device was to return")
            return
        for (seq, is_value), value in zip(rows, values, strict=True):
            self._writer.complete(seq, value if is_value else math.nan, math.isfinite(value))


def _brought(numbers: Sequence[torch.Tensor]) -> list[float]:
    groups: dict[torch.device, list[int]] = {}
    for place, number in enumerate(numbers):
        groups.setdefault(number.device, []).append(place)
    values = [math.nan] * len(numbers)
    for places in groups.values():
        for place, value in zip(places, torch.stack([numbers[place] for place in places]).tolist(), strict=True):
            values[place] = value
    return values


def look_at_each(tensors: Iterable[torch.Tensor], norms: bool = False) -> dict[int, Seen]:
    """What tensors hold that lie on other devices, by their `id`. Waits for each device once. Call under `quiet()`."""
    every = [*tensors]
    if (found := gpu.looks(every, norms)) is not None:
        return found
    groups: dict[torch.device, list[torch.Tensor]] = {}
    for tensor in every:
        if is_far(tensor):
            groups.setdefault(tensor.device, []).append(tensor)
    return {id(tensor): seen for own in groups.values() for tensor, seen in zip(own, look_at(own, norms), strict=True)}
