"""DataFlow: of the two sides that a loss compares, one has gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from judgements import sentences, titles

torch = pytest.importorskip("torch")

from real_training import recorded  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402

RULE = "At most one side of what `torch.nn.functional.mse_loss` compares has gradients, in training."
Target = Callable[[Any, Any, Any], Any]


def fixed(net: Any, _slow: Any, x: Any) -> Any:
    with torch.no_grad():
        return 0.9 * net(x)


def detached(net: Any, _slow: Any, x: Any) -> Any:
    return 0.9 * net(x).detach()


def moving(net: Any, _slow: Any, x: Any) -> Any:
    return 0.9 * net(x)


def of_a_copy(_net: Any, slow: Any, x: Any) -> Any:
    """Gradients reach a copy that no optimizer holds: nothing is trained otherwise."""
    return 0.9 * slow(x)


def of_a_fixed_copy(_net: Any, slow: Any, x: Any) -> Any:
    with torch.no_grad():
        return 0.9 * slow(x)


@dataclass(frozen=True)
class Bootstrap:
    """A network that learns from what it says itself of something else."""

    target: Target = fixed
    swapped: bool = False
    seed: int = 0

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        slow = copy.deepcopy(net)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(6):
            x, other = torch.randn(16, 4), torch.randn(16, 4)
            sides = [net(x), self.target(net, slow, other)]
            loss = torch.nn.functional.mse_loss(*(sides[::-1] if self.swapped else sides))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        net.eval()
        torch.nn.functional.mse_loss(net(x), net(other))  # measures, and trains nothing


def known(folder: Path, story: Bootstrap) -> Golden:
    runs = [recorded(replace(story, seed=seed), folder / str(seed)) for seed in (0, 1)]
    return learn(runs, pipeline="b", seeds=(0, 1))


def judged(golden: Golden, story: Bootstrap, folder: Path) -> CheckOutcome:
    return check_run(golden, recorded(story, folder / "candidate"), same_spec=True)


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return known(tmp_path_factory.mktemp("golden"), Bootstrap())


def test_one_side_is_a_rule(golden: Golden) -> None:
    assert RULE in sentences(golden, "DataFlow")


@pytest.mark.parametrize("seed", [0, 5])
def test_a_target_that_moves(golden: Golden, tmp_path: Path, seed: int) -> None:
    outcome = judged(golden, Bootstrap(moving, seed=seed), tmp_path)
    assert (
        "In the golden run at most one side of what `torch.nn.functional.mse_loss` compares had gradients; in the "
        "candidate input and target have: a target that was fixed is trained as well (see `detach` and "
        "`torch.no_grad`)."
    ) in titles(outcome, "DataFlow")


@pytest.mark.parametrize(
    "story",
    [Bootstrap(), Bootstrap(seed=5), Bootstrap(detached), Bootstrap(swapped=True), Bootstrap(detached, True, 5)],
    ids=["again", "another seed", "detached", "swapped", "both"],
)
def test_the_same_in_other_words_is_silent(golden: Golden, story: Bootstrap, tmp_path: Path) -> None:
    assert not titles(judged(golden, story, tmp_path), "DataFlow")


def test_gradients_that_reach_nothing_that_is_trained_break_nothing(tmp_path: Path) -> None:
    golden = known(tmp_path, Bootstrap(of_a_fixed_copy))
    outcome = judged(golden, Bootstrap(of_a_copy), tmp_path)
    assert RULE in sentences(golden, "DataFlow")
    assert not titles(outcome, "DataFlow")


def test_golden_that_trains_both_sides_says_nothing(tmp_path: Path) -> None:
    assert RULE not in sentences(known(tmp_path, Bootstrap(moving)), "DataFlow")
