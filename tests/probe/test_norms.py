"""Norms of gradients: the same numbers from the compiled core and from Python."""

import math

import pytest
import torch

from pytest_traincheck.probe import digest

needs_core = pytest.mark.skipif(digest.native is None, reason="there is no compiled core")

SIZES = (1, 3, 16, 100, 4096, 5000, 70_001)


def in_python(tensors: list[torch.Tensor], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    with monkeypatch.context() as patch:
        patch.setattr(digest, "native", None)
        return digest.norms(tensors)


def gradients(dtype: torch.dtype) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(size, dtype=dtype) * 10.0**power for size in SIZES for power in (-12, -3, 0, 5, 12)]


@needs_core
@pytest.mark.usefixtures("registers")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_core_and_python_agree_to_the_last_bit(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = gradients(dtype)
    found = digest.native.norms(tensors)
    assert None not in found
    assert found == in_python(tensors, monkeypatch)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_norm_is_the_square_root_of_the_sum_of_squares(dtype: torch.dtype) -> None:
    tensors = gradients(dtype)
    expected = [math.sqrt(math.fsum(value * value for value in tensor.tolist())) for tensor in tensors]
    assert digest.norms(tensors) == pytest.approx(expected, rel=2**-24)


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (torch.zeros(5), 0.0),
        (torch.full((4,), 3e38), 6e38),  # beyond what float32 can say
        (torch.full((4,), 1e-45), 2 * 1.401298464324817e-45),
        (torch.full((4,), 1e200, dtype=torch.float64), math.inf),
        (torch.full((4,), 1e-200, dtype=torch.float64), 0.0),
        (torch.tensor([1.0, math.inf]), math.inf),
        (torch.tensor(2.0), 2.0),
        (torch.ones(4, 4)[:, ::2], math.sqrt(8)),
        (torch.ones(4, 4).T, 4.0),
        (torch.full((16,), 0.5, dtype=torch.bfloat16), 2.0),
        (torch.tensor([3 + 4j]), 5.0),
        (torch.eye(4).to_sparse(), 2.0),
    ],
)
def test_norms_at_the_edges(tensor: torch.Tensor, expected: float, monkeypatch: pytest.MonkeyPatch) -> None:
    assert digest.norms([tensor]) == pytest.approx([expected], rel=1e-7, abs=0)
    assert in_python([tensor], monkeypatch) == digest.norms([tensor])


def test_what_is_not_a_number_has_no_norm_and_the_others_have_theirs() -> None:
    first, second, empty = digest.norms([torch.tensor([math.nan, 1.0]), torch.ones(4), torch.empty(0)])
    assert math.isnan(first)
    assert second == 2.0
    assert math.isnan(empty)


@needs_core
def test_memory_that_is_smaller_than_a_tensor_says_is_not_read() -> None:
    tensor = torch.ones(5000)
    tensor.untyped_storage().resize_(64)
    assert digest.native.norms([tensor]) == [None]
