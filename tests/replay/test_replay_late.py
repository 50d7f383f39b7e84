"""What is computed behind the first steps: in the first evaluation, and by a model that was loaded."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judgements import describe, titles

torch = pytest.importorskip("torch")

from real_training import recorded  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402

STEPS = 9


class Forecast(nn.Module):
    """Computes in evaluation what it does not compute in training: values on the scale of the data."""

    def __init__(self, scale: Callable[[Any], Any]) -> None:
        super().__init__()
        self.hidden = nn.Linear(5, 12)
        self.last = nn.Linear(12, 2)
        self.scale = scale

    def forward(self, inputs: Any) -> Any:
        found = self.last(torch.tanh(self.hidden(inputs)))
        return found if self.training else self.scale(found)


def as_it_is(values: Any) -> Any:
    return 3 * values + 1


def in_another_order(values: Any) -> Any:
    return 1 + values + values + values


def without_shift(values: Any) -> Any:
    return 3 * values


def program(
    seed: int,
    scale: Callable[[Any], Any] = as_it_is,
    loaded: Callable[[Any], Any] = as_it_is,
    looks: int = 0,
    fused: bool = False,
) -> None:
    """Trains, evaluates, and reads what came of it into another model, which evaluates as well. `looks`: steps after
    which it is evaluated in between.
    """
    torch.manual_seed(seed)
    data = torch.randn(60, 5)
    model = Forecast(scale)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=fused)
    for step in range(STEPS):
        rows = torch.randint(60, (12,))
        optimizer.zero_grad()
        (model(data[rows]) - data[rows, :2]).square().mean().backward()
        optimizer.step()
        if looks and step % looks == looks - 1:
            with torch.no_grad():
                model.eval()(data)
            model.train()
    with torch.no_grad():
        for part in data.split(20):
            model.eval()(part)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    served = Forecast(loaded)
    served.load_state_dict(torch.load(file))
    with torch.no_grad():
        served.eval()(data)


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    folder = tmp_path_factory.mktemp("late")
    runs = [recorded(lambda seed=seed: program(seed), folder / f"golden{seed}") for seed in (0, 1)]
    return learn(runs, pipeline="late", seeds=(0, 1))


def judged(golden: Golden, folder: Path, seed: int = 0, **change: Any) -> CheckOutcome:
    return check_run(golden, recorded(lambda: program(seed, **change), folder), same_spec=True)


@pytest.mark.parametrize(("change", "name"), [("scale", "Forecast"), ("loaded", "Forecast#1")])
def test_what_is_computed_in_evaluation_only(golden: Golden, change: str, name: str, tmp_path: Path) -> None:
    outcome = judged(golden, tmp_path, **{change: without_shift})
    (title,) = titles(outcome, "Replay")
    assert title.startswith(
        f"`{name}` returns a different result than in the golden run, though inputs, parameters and"
    )


@pytest.mark.parametrize(
    ("seed", "change"),
    [
        (0, {}),
        (0, {"scale": in_another_order, "loaded": in_another_order}),
        (0, {"looks": 3}),
        (0, {"fused": True}),
        (5, {}),
        (5, {"looks": 2}),
    ],
    ids=lambda item: ", ".join(item) or "unchanged" if isinstance(item, dict) else str(item),
)
def test_the_same_computed_otherwise_or_looked_at_more_often(
    golden: Golden, seed: int, change: dict[str, Any], tmp_path: Path
) -> None:
    outcome = judged(golden, tmp_path, seed, **change)
    assert not outcome.incidents, describe(outcome.incidents)
