"""Drift: what is merged is taken out again."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from judgements import describe, sentences, violations

torch = pytest.importorskip("torch")

from real_training import recorded  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402

RULE = (
    "Parameters of `Adapted` that no optimizer holds are written to and come back to where they were, up to rounding."
)


class Adapted(nn.Module):
    """A frozen layer, and what is learned beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(6, 4)
        self.down = nn.Linear(6, 2, bias=False)
        self.up = nn.Linear(2, 4, bias=False)
        self.base.requires_grad_(False)

    def merge(self, sign: float) -> None:
        with torch.no_grad():
            self.base.weight += sign * (self.up.weight @ self.down.weight)

    def forward(self, inputs: Any) -> Any:
        return self.base(inputs) + self.up(self.down(inputs))


def training(seed: int = 0, steps: int = 16, every: int = 10, taken_out: bool = True, average: bool = False) -> None:
    """Merged once, which may be long after the first steps."""
    torch.manual_seed(seed)
    net = Adapted()
    optimizer = torch.optim.SGD([*net.down.parameters(), *net.up.parameters()], lr=0.1)
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        net(torch.randn(8, 6)).square().mean().backward()
        optimizer.step()
        if average:
            with torch.no_grad():
                net.base.weight.mul_(0.9)
        elif step % every == 0:
            net.merge(1.0)
            if taken_out:
                net.merge(-1.0)


def golden(folder: Path, **how: Any) -> Golden:
    runs = [recorded(partial(training, seed=seed, **how), folder / f"golden{seed}") for seed in (0, 1)]
    return learn(runs, pipeline="real", seeds=(0, 1))


def judged(known: Golden, folder: Path, **how: Any) -> CheckOutcome:
    return check_run(known, recorded(partial(training, **how), folder / "candidate"), same_spec=True)


def test_adapters_that_are_never_taken_out(tmp_path: Path) -> None:
    known = golden(tmp_path)
    assert sentences(known, "Drift") == [RULE]
    outcome = judged(known, tmp_path, seed=5, taken_out=False)
    (found,) = violations(outcome, "Drift")
    assert (found.step, found.variables) == (10, ("Adapted.base.weight",)), describe(outcome.incidents)
    assert found.title.startswith("In the golden run `Adapted.base.weight`, which no optimizer holds, came back")


@pytest.mark.parametrize("how", [{}, {"every": 3}, {"every": 99}], ids=["another seed", "more often", "never"])
def test_what_comes_back_is_as_it_should_be(tmp_path: Path, how: dict[str, Any]) -> None:
    assert not violations(judged(golden(tmp_path), tmp_path, seed=5, **how), "Drift")


@pytest.mark.parametrize("how", [{"average": True}, {"every": 99}], ids=["an average", "never written to"])
def test_where_nothing_comes_back_there_is_no_rule(tmp_path: Path, how: dict[str, Any]) -> None:
    assert not sentences(golden(tmp_path, **how), "Drift")
