"""The user's own optimizers and schedulers, renamed or exchanged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judgements import describe

torch = pytest.importorskip("torch")

from real_training import recorded  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402


def own_optimizer(name: str, update: Callable[[Any], Any], **settings: float) -> Any:
    """An optimizer class of the user's, with what it makes of a gradient."""

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self: Any) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.add_(update(parameter.grad), alpha=-group["lr"])

    def init(self: Any, parameters: Any) -> None:
        torch.optim.Optimizer.__init__(self, parameters, {"lr": 0.05, **settings})

    return type(name, (torch.optim.Optimizer,), {"__init__": init, "step": step, "__module__": __name__})


def own_schedule(name: str, factor: float = 0.5) -> Any:
    def rates(self: Any) -> list[float]:
        return [base * factor**self.last_epoch for base in self.base_lrs]

    def step(self: Any) -> None:
        torch.optim.lr_scheduler.LRScheduler.step(self)

    kind = torch.optim.lr_scheduler.LRScheduler
    return type(name, (kind,), {"get_lr": rates, "step": step, "__module__": __name__})


def plain(gradient: Any) -> Any:
    return gradient


def train(optimizer_class: Any, schedule_class: Any, seed: int) -> None:
    torch.manual_seed(seed)
    net = torch.nn.Linear(6, 3)
    optimizer = optimizer_class(net.parameters())
    schedule = schedule_class(optimizer)
    for _ in range(6):
        optimizer.zero_grad()
        net(torch.rand(16, 6)).square().mean().backward()
        optimizer.step()
        schedule.step()


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    folder = tmp_path_factory.mktemp("golden")
    mine, schedule = own_optimizer("Mine", plain, mu=0.9), own_schedule("Halving")
    runs = [recorded(lambda given=seed: train(mine, schedule, given), folder / str(seed)) for seed in (0, 1)]
    return learn(runs, pipeline="real", seeds=(0, 1))


def check(golden: Golden, optimizer: Any, schedule: Any, folder: Path, seed: int = 0) -> CheckOutcome:
    return check_run(golden, recorded(lambda: train(optimizer, schedule, seed), folder), same_spec=True)


@pytest.mark.parametrize("seed", [0, 7])
def test_renamed_classes_are_golden_s(golden: Golden, tmp_path: Path, seed: int) -> None:
    optimizer, schedule = own_optimizer("Renamed", plain, mu=0.9), own_schedule("Falling")
    outcome = check(golden, optimizer, schedule, tmp_path, seed)
    assert not outcome.incidents, describe(outcome.incidents)
    assert {golden for _, golden in outcome.renamed} == {f"{__name__}.Mine", f"{__name__}.Halving"}


def test_a_renamed_class_that_computes_something_else_is_reported(golden: Golden, tmp_path: Path) -> None:
    outcome = check(golden, own_optimizer("Renamed", torch.sign, mu=0.9), own_schedule("Halving"), tmp_path)
    assert "differently than in the golden run" in outcome.incidents[0].cause.title


@pytest.mark.parametrize("seed", [0, 7])
def test_a_renamed_schedule_that_gives_other_rates_is_reported(golden: Golden, tmp_path: Path, seed: int) -> None:
    outcome = check(golden, own_optimizer("Mine", plain, mu=0.9), own_schedule("Falling", 0.7), tmp_path, seed)
    assert "learning-rate schedule" in outcome.incidents[0].cause.title


@pytest.mark.parametrize("seed", [0, 7])
def test_a_class_with_other_settings_is_another_optimizer(golden: Golden, tmp_path: Path, seed: int) -> None:
    outcome = check(golden, own_optimizer("Other", torch.sign, beta=0.9), own_schedule("Halving"), tmp_path, seed)
    assert f"is a `{__name__}.Other` in the candidate" in outcome.incidents[0].cause.title


def test_a_class_of_torch_is_no_name(golden: Golden, tmp_path: Path) -> None:
    outcome = check(
        golden, lambda parameters: torch.optim.Adam(parameters, lr=0.05), own_schedule("Halving"), tmp_path, 7
    )
    assert "is a `torch.optim.Adam` in the candidate" in outcome.incidents[0].cause.title
