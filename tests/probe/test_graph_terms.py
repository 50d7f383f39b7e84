"""What is a term of a loss does not depend on the operator that adds terms up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_traincheck.probe.graph import terms, weights  # noqa: E402

Join = Callable[[Any, Any], Any]

SUMS: dict[str, Join] = {
    "by hand": lambda a, b: 0.7 * a + 0.3 * b,
    "lerp": lambda a, b: torch.lerp(a, b, 0.3),
    "lerp by a tensor": lambda a, b: torch.lerp(a, b, torch.tensor(0.3)),
    "addcmul": lambda a, b: torch.addcmul(a, b, torch.tensor(0.3)),
    "addcdiv": lambda a, b: torch.addcdiv(a, b, torch.tensor(3.0)),
    "stacked": lambda a, b: torch.stack([a, b]).sum(),
    "joined": lambda a, b: torch.cat([a[None], b[None]]).mean(),
    "dot": lambda a, b: torch.dot(torch.tensor([0.7, 0.3]), torch.stack([a, b])),
    "matrix by vector": lambda a, b: (torch.ones(1, 2) @ torch.stack([a, b])).sum(),
    "einsum": lambda a, b: torch.einsum("i,i->", torch.tensor([0.7, 0.3]), torch.stack([a, b])),
    "where": lambda a, b: torch.where(torch.tensor([True, False]), a, b).sum(),
}


def losses() -> tuple[Any, Any]:
    first, second = torch.rand(4, requires_grad=True), torch.rand(4, requires_grad=True)
    return first.exp().sum(), second.sin().sum()


@pytest.mark.parametrize("join", SUMS.values(), ids=SUMS)
def test_a_sum_has_its_terms_however_it_is_written(join: Join) -> None:
    first, second = losses()
    assert len(terms(join(first, second), through_means=True) or []) == 2


@pytest.mark.parametrize("join", SUMS.values(), ids=SUMS)
def test_a_detached_term_is_none_however_it_is_written(join: Join) -> None:
    first, second = losses()
    assert len(terms(join(first, second.detach()), through_means=True) or []) == 1
    assert len(terms(join(first.detach(), second), through_means=True) or []) == 1


def test_a_layer_is_no_sum_of_terms() -> None:
    layer = torch.nn.Linear(4, 1)
    assert len(terms(layer(torch.rand(2, 4)).sum(), through_means=True) or []) == 1


def test_lerp_weighs_its_terms() -> None:
    assert weights(SUMS["lerp"](*losses())) == pytest.approx([0.7, 0.3])
