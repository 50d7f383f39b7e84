"""Looks at tensors of other devices: what is found is what a look at the same numbers in the CPU's memory finds.

Where torch can use no GPU the numbers are reduced on the CPU, in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from probe_runs import ROW

from pytest_traincheck.probe import devices, gpu
from pytest_traincheck.probe import digest as content
from pytest_traincheck.probe.context import NONFINITE, Call
from pytest_traincheck.probe.core import native
from pytest_traincheck.probe.core.short_ways import CoreWriter
from pytest_traincheck.probe.symbols import Api
from pytest_traincheck.probe.writer import TraceWriter

torch = pytest.importorskip("torch")

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch can use no GPU here")
COMPILED = pytest.mark.skipif(native is None, reason="the compiled core is not here")
DEVICES = ["cpu", pytest.param("cuda", marks=GPU)]

NUMBERS: dict[str, Callable[[], Any]] = {
    "one": lambda: torch.tensor(3.0),
    "few": lambda: torch.arange(7.0),
    "small": lambda: torch.randn(1000),
    "just small": lambda: torch.randn(4096),
    "larger": lambda: torch.randn(4097),
    "rows": lambda: torch.randn(128, 64),
    "a block and more": lambda: torch.randn(300, 130),
    "many blocks": lambda: torch.randn(1 << 18),
    "zeros": lambda: torch.zeros(5000),
    "negative zero": lambda: torch.tensor([-0.0, 0.0]),
    "late number": lambda: torch.cat([torch.zeros(9000), torch.ones(1)]),
    "nan": lambda: torch.tensor([1.0, math.nan]),
    "late infinity": lambda: torch.cat([torch.ones(9000), torch.tensor([-math.inf])]),
    "double": lambda: torch.randn(3000, dtype=torch.float64),
    "half": lambda: torch.randn(9000).half(),
    "half beyond": lambda: torch.tensor([math.inf], dtype=torch.float16),
    "bfloat16": lambda: torch.randn(9001).bfloat16(),
    "complex": lambda: torch.randn(40, dtype=torch.complex64),
    "whole": lambda: torch.randint(-5, 5, (900,)),
    "whole zeros": lambda: torch.zeros(3, dtype=torch.int32),
    "truth": lambda: torch.rand(20_000) > 0.5,
    "bytes": lambda: torch.randint(0, 255, (20_001,)).to(torch.uint8),
    "float8": lambda: torch.randn(300).to(torch.float8_e4m3fn),
    "part of another": lambda: torch.randn(9000)[1:8001],
    "empty": lambda: torch.empty(0),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("finite", [False, True])
def test_all_that_is_looked_at_together_is_what_it_is_alone(device: str, finite: bool) -> None:
    torch.manual_seed(0)
    tensors = {name: make().contiguous() for name, make in NUMBERS.items()}
    alone = {name: content.look(tensor, finite)[:2] for name, tensor in tensors.items()}
    moved = [tensor.to(device) for tensor in tensors.values()]
    for look_at in (devices.look_at, lambda given: devices._by_operators(given, norms=False)):
        seen = look_at(moved)
        together = {name: devices.as_look(one, finite, 0)[:2] for name, one in zip(tensors, seen, strict=True)}
        assert together == alone


@GPU
def test_kernel_finds_what_operators_find() -> None:
    torch.manual_seed(0)
    sizes = [1, 7, 64, 4095, 4096, 4097, 8192, 32768, 32769, 40_000, 65_536, 98_304, 98_432, 98_433, 1 << 20, 3_000_001]
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool):
        tensors = [(torch.randn(size, device="cuda") * 10).to(dtype) for size in sizes]
        tensors += [tensors[-1][1:], tensors[-2].view(1024, -1).T, torch.empty(0, dtype=dtype, device="cuda")]
        found = gpu.look_at(tensors, norms=True)
        assert found is not None
        wanted = devices._by_operators(tensors, norms=True)
        assert [one[:3] for one in found] == [one[:3] for one in wanted]
        rounding = 2e-2 if dtype.itemsize < 4 else 1e-5
        assert [one[3] for one in found[:-1]] == pytest.approx(
            [one[3] for one in wanted[:-1]], rel=rounding, nan_ok=True
        )
        blocks = [
            tensor for tensor in tensors if tensor.numel() and tensor.is_contiguous() and not tensor.data_ptr() % 8
        ]
        assert gpu.looks([torch.ones(3), *blocks], norms=True) == {
            id(tensor): pytest.approx(seen, nan_ok=True)
            for tensor, seen in zip(tensors, found, strict=True)
            if any(tensor is block for block in blocks)
        }
        assert gpu.looks([tensors[-2]], norms=True) is None


@pytest.mark.parametrize("device", DEVICES)
def test_hash_is_that_of_the_same_content_on_the_cpu(device: str) -> None:
    torch.manual_seed(0)
    for name, make in NUMBERS.items():
        tensor = make().contiguous()
        assert content.digest(tensor.to(device)) == content.digest(tensor), name


@pytest.mark.parametrize("device", DEVICES)
def test_norms_come_with_the_looks(device: str) -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(300, 70), torch.randn(5).double(), torch.arange(4), torch.randn(60).bfloat16()]
    found = [seen[3] for seen in devices.look_at([tensor.to(device) for tensor in tensors], norms=True)]
    wanted = [float(tensor.double().norm()) for tensor in tensors]
    assert math.isnan(found[2])
    assert [found[place] for place in (0, 1, 3)] == pytest.approx([wanted[place] for place in (0, 1, 3)], rel=1e-2)


def test_a_state_that_is_known_is_not_asked_for() -> None:
    (seen,) = devices.look_at([torch.zeros(3)])
    assert devices.as_look(seen, True, content.NONZERO)[0] == content.NONZERO
    assert devices.as_look(seen, True, 0)[0] == content.ZERO


def test_nothing_of_the_cpu_is_far() -> None:
    assert devices.look_at_each([torch.ones(2)]) == {}


@pytest.mark.parametrize("kind", [TraceWriter, pytest.param(CoreWriter, marks=COMPILED)])
def test_rows_are_completed(tmp_path: Path, kind: type[TraceWriter]) -> None:
    """A number that comes late stands in the row of its call, and in no other one."""
    writer, clock, calls = kind(tmp_path), count(1), []
    for _ in range(4):
        call = Call(next(clock), 0, Api("torch.sum", "function", "torch"), 1, 0, 0, 0, 0)
        writer.change(clock, 1, call.seq, 7, 0, 0, 1, 2, 5, math.nan)
        writer.call(clock, 1, 0, call, 0, 0, math.nan)
        calls.append(call)
    writer.complete(calls[1].seq, 2.5, True)
    writer.complete(calls[2].seq, math.inf, False)
    writer.complete(calls[3].seq, math.nan, False)
    writer.complete(999, 1.0, False)
    writer.close(finished=True)
    writer.complete(calls[0].seq, 3.0, False)
    rows = np.frombuffer((writer.directory / "events.bin").read_bytes(), ROW)
    made, changes = rows[rows["kind"] == 1], rows[rows["kind"] == 2]
    np.testing.assert_equal(made["value"], [math.nan, 2.5, math.inf, math.nan])
    assert made["flags"].tolist() == [0, 0, NONFINITE, NONFINITE]
    assert np.isnan(changes["value"]).all()
    assert not changes["flags"].any()
