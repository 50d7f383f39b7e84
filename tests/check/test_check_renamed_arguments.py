"""Arguments of a model that a refactor renames are golden's, by their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from judgements import describe

torch = pytest.importorskip("torch")

from real_training import recorded  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.alignment.arguments import find_renamed_arguments  # noqa: E402
from pytest_traincheck.check.evaluate import check_run  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402


def network(forward: Any) -> Any:
    """A network of one class and one layer, whatever its `forward` calls its arguments."""
    return type("Net", (nn.Module,), {"__init__": _init, "forward": forward, "__module__": __name__})()


def _init(self: Any) -> None:
    nn.Module.__init__(self)
    self.layer = nn.Linear(6, 1)


def as_golden(self: Any, x: Any, scale: Any) -> Any:
    return self.layer(x * scale)


def renamed(self: Any, points: Any, factor: Any) -> Any:
    return self.layer(points * factor)


def swapped(self: Any, scale: Any, x: Any) -> Any:
    return self.layer(scale * x)


def train(forward: Any, seed: int = 0, low: float = 0.0) -> None:
    torch.manual_seed(seed)
    net = network(forward)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(6):
        optimizer.zero_grad()
        net(torch.rand(16, 6) + low, torch.full((16, 1), 2.0)).square().mean().backward()
        optimizer.step()


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    folder = tmp_path_factory.mktemp("golden")
    runs = [recorded(lambda given=seed: train(as_golden, given), folder / str(seed)) for seed in (0, 1)]
    return learn(runs, pipeline="real", seeds=(0, 1))


def judged(golden: Golden, folder: Path, forward: Any, **how: Any) -> Any:
    return check_run(golden, recorded(lambda: train(forward, **how), folder), same_spec=True)


def verdict(outcome: Any, sentence: str) -> str:
    """What became of the rule with this sentence."""
    (found,) = [item.verdict.value for item in outcome.verdicts if item.invariant.sentence == sentence]
    return str(found)


BELOW = "No row of the input `x` of `Net` holds a number below 0."
NEW = "Most of the input `x` of a model changes from one training step to the next."


def test_renamed_arguments_are_judged(golden: Golden, tmp_path: Path) -> None:
    assert golden.arguments == {"Net": ["x", "scale"]}
    outcome = judged(golden, tmp_path, renamed, seed=3)
    assert not outcome.incidents, describe(outcome.incidents)
    assert verdict(outcome, BELOW) == "held"
    assert verdict(outcome, NEW) == "held"


def test_what_is_wrong_is_found_under_other_names(golden: Golden, tmp_path: Path) -> None:
    (incident,) = judged(golden, tmp_path, renamed, seed=3, low=-0.5).incidents
    assert "the input `x` of `Net` held a number below 0" in incident.cause.title


def test_names_that_mean_something_else_are_left_alone(golden: Golden, tmp_path: Path) -> None:
    assert verdict(judged(golden, tmp_path, swapped, seed=3), BELOW) != "not triggered"
    known = {"Net": ["x", "mask"]}
    assert find_renamed_arguments(known, {"Net": ["points", "mask"]}) == {("Net", "points"): "x"}
    assert find_renamed_arguments(known, {"Net": ["mask", "points"]}) == {}
    assert find_renamed_arguments(known, {"Net": ["points"]}) == {}
    assert find_renamed_arguments(known, {"Other": ["points", "mask"]}) == {}
