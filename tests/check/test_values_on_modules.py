"""A value that is set on a module, and what functions are given or not called for it, are one incident."""

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


class Block(torch.nn.Module):
    """What it computes with is set on it."""

    def __init__(self, rate: float = 0.1, steady: float = 1e-5, norm: bool = True, literal: float = 0.01) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(6, 6)
        self.rate, self.steady, self.norm = rate, steady, norm
        self._literal = literal

    def forward(self, x: Any) -> Any:
        x = F.leaky_relu(self.layer(x), self._literal)
        x = F.layer_norm(x, (6,), eps=self.steady) if self.norm else x
        return F.dropout(x, self.rate, self.training)


class Net(torch.nn.Module):
    """Two blocks, and how far the targets are smoothed, which its loss is told outside of every call."""

    def __init__(self, smoothing: float = 0.1, clips: bool = True, **block: Any) -> None:
        super().__init__()
        self.first, self.second = Block(**block), Block(**block)
        self.smoothing = smoothing
        self._clips = clips

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x))


def loop(seed: int = 0, **net: Any) -> Callable[[], None]:
    def train() -> None:
        torch.manual_seed(seed)
        model = Net(**net)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(6):
            targets = torch.randint(6, (8,))
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(8, 6)), targets, label_smoothing=model.smoothing).backward()
            if model._clips:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return train


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    folder = tmp_path_factory.mktemp("golden")
    return learn([recorded(loop(seed), folder / str(seed)) for seed in (0, 1)], pipeline="story")


@pytest.mark.parametrize(
    ("changed", "attribute"),
    [
        ({"rate": 0.4}, "rate"),
        ({"steady": 1e-3}, "steady"),
        ({"norm": False}, "norm"),
        ({"smoothing": 0.3}, "smoothing"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_the_value_is_the_cause_of_what_follows(
    golden: Golden, tmp_path: Path, changed: dict[str, Any], attribute: str
) -> None:
    incidents = check(golden, loop(**changed), tmp_path).incidents
    assert len(incidents) == 1, describe(incidents)
    assert incidents[0].cause.title.startswith(f"The attribute `{attribute}` of ")
    assert any(item.invariant.relation in ("APIArg", "Count") for item in incidents[0].consequences)


@pytest.mark.parametrize("also", [{"clips": False}, {"smoothing": 0.3}], ids=["no clipping", "another value"])
def test_what_does_not_follow_from_it_is_an_incident_of_its_own(
    golden: Golden, tmp_path: Path, also: dict[str, Any]
) -> None:
    incidents = check(golden, loop(norm=False, **also), tmp_path).incidents
    assert len(incidents) == 2, describe(incidents)
