"""Gradients that are golden's within rounding show that another way to them changed nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judgements import describe

torch = pytest.importorskip("torch")

from real_training import check, recorded  # noqa: E402

from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402

F = torch.nn.functional
Loss = Callable[[Any, Any, Any], Any]


def at_once(net: Any, x: Any, y: Any) -> Any:
    return F.cross_entropy(net(x), y)


def in_parts(net: Any, x: Any, y: Any) -> Any:
    """The same loss, with its sum in another order."""
    parts = [F.cross_entropy(net(a), b, reduction="sum") for a, b in zip(x.chunk(4), y.chunk(4), strict=True)]
    return sum(parts) / len(x)


def of_all_but_the_last(net: Any, x: Any, y: Any) -> Any:
    """The last part is forgotten."""
    parts = [F.cross_entropy(net(a), b, reduction="sum") for a, b in zip(x.chunk(4), y.chunk(4), strict=True)]
    return sum(parts[:3]) / len(x)


def nearly(net: Any, x: Any, y: Any) -> Any:
    """A loss that is off by a hundred thousandth: more than rounding explains."""
    return in_parts(net, x, y) * (1 + 1e-5)


def loop(seed: int = 0, loss: Loss = at_once, other_from: int = 0) -> Callable[[], None]:
    def train() -> None:
        torch.manual_seed(seed)
        net = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        for step in range(6):
            x, y = torch.randn(16, 6), torch.randint(3, (16,))
            optimizer.zero_grad()
            (loss if step >= other_from else at_once)(net, x, y).backward()
            optimizer.step()

    return train


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    folder = tmp_path_factory.mktemp("golden")
    return learn([recorded(loop(seed), folder / str(seed)) for seed in (0, 1, 2)], pipeline="story")


def test_a_sum_in_another_order_is_no_incident_and_the_evidence_is_named(golden: Golden, tmp_path: Path) -> None:
    outcome = check(golden, loop(loss=in_parts), tmp_path)
    assert not outcome.incidents, describe(outcome.incidents)
    reasons = {item.reason for item in outcome.verdicts if "reduction=mean" in item.invariant.sentence}
    assert reasons == {"all gradients of 2 steps are golden's within rounding"}


@pytest.mark.parametrize("loss", [of_all_but_the_last, nearly], ids=["a part is forgotten", "nearly the same"])
def test_what_changes_gradients_is_reported(golden: Golden, tmp_path: Path, loss: Loss) -> None:
    assert check(golden, loop(loss=loss), tmp_path).incidents


def test_steps_that_were_not_compared_are_excused_by_none(golden: Golden, tmp_path: Path) -> None:
    """The first steps are golden's to the bit; what comes later was not seen in them."""
    assert check(golden, loop(loss=in_parts, other_from=4), tmp_path).incidents
