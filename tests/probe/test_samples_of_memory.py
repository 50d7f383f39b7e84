"""What is looked at of a tensor that seems unchanged, whose version says nothing of writes through `.data`."""

from __future__ import annotations

import pytest
import torch

from pytest_traincheck.probe import digest, variable
from pytest_traincheck.probe.core import native
from pytest_traincheck.probe.variable import Var

needs_core = pytest.mark.skipif(native is None, reason="there is no compiled core")
CORES = [pytest.param(True, id="compiled", marks=needs_core), pytest.param(False, id="in-python")]


@pytest.fixture(params=CORES)
def _core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(digest, "native", None)
        monkeypatch.setattr(variable, "native", None)


def _noticed(size: int, begin: int, end: int) -> bool:
    """Whether a write through `.data` to some bytes of a tensor of `size` bytes is seen."""
    tensor = torch.zeros(size, dtype=torch.uint8)
    known = Var("buffer", "of.nothing")
    known.remember(tensor, digest.look(tensor))
    assert known.looks_same(tensor)
    tensor.data[begin:end] = 7
    return not known.looks_same(tensor)


@pytest.mark.usefixtures("_core")
@pytest.mark.parametrize("size", [1, 63, 1000, 1024])
def test_each_byte_of_a_small_tensor_is_compared(size: int) -> None:
    assert all(_noticed(size, at, at + 1) for at in range(0, size, max(1, size // 9)))
    assert _noticed(size, size - 1, size)


@pytest.mark.usefixtures("_core")
@pytest.mark.parametrize("size", [1025, 1100, 4096, 20_000])
def test_each_byte_in_the_middle_of_a_large_one_is_compared(size: int) -> None:
    first = (size - 1024) // 2
    assert all(_noticed(size, at, at + 1) for at in range(first, first + 1024, 93))
    assert _noticed(size, first + 1023, first + 1024)
    assert not _noticed(size, first + 1024, size)


@pytest.mark.usefixtures("_core")
@pytest.mark.parametrize("column", range(0, 64, 9))
def test_a_write_to_any_column_of_a_weight_is_noticed(column: int) -> None:
    weight = torch.zeros(64, 64)
    known = Var("param", "of.nothing")
    known.remember(weight, digest.look(weight))
    weight.data[:, column] = 1
    assert not known.looks_same(weight)


@needs_core
@pytest.mark.parametrize("size", [1, 256, 1024, 1025, 1100, 4096, 16 * 1024 + 8, 100_003])
def test_both_cores_take_the_same_sample(size: int) -> None:
    tensor = torch.arange(size, dtype=torch.int64).to(torch.uint8)
    *_, pointer, held, sample = digest.look(tensor)
    assert held == size
    assert sample == digest.sample(pointer, size)
