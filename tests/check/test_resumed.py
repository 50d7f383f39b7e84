"""A training that resumes makes its model and optimizer anew: they take the place of the first ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.check.part import Part  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402
from pytest_traincheck.probe import observe  # noqa: E402
from pytest_traincheck.trace import Run, load_run  # noqa: E402

STEPS, RESUMED = 6, 4
Made = tuple[torch.nn.Module, torch.nn.Module, torch.optim.Optimizer]


def make() -> Made:
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    teacher = torch.nn.Sequential(torch.nn.Linear(5, 2)).requires_grad_(False)
    return model, teacher, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def everything(old: Made) -> Made:
    """The right way."""
    new = make()
    for one, other in zip(new, old, strict=True):
        one.load_state_dict(other.state_dict())
    return new


def all_but_the_optimizer(old: Made) -> Made:
    model, teacher, optimizer = make()
    model.load_state_dict(old[0].state_dict())
    teacher.load_state_dict(old[1].state_dict())
    return model, teacher, optimizer


def the_optimizer_alone(old: Made) -> Made:
    """The model goes on as it is."""
    optimizer = torch.optim.SGD(old[0].parameters(), lr=0.1, momentum=0.9)
    optimizer.load_state_dict(old[2].state_dict())
    return old[0], old[1], optimizer


def an_optimizer_without_state(old: Made) -> Made:
    return old[0], old[1], torch.optim.SGD(old[0].parameters(), lr=0.1, momentum=0.9)


def train(directory: Path, seed: int, resume: Callable[[Made], Made] | None = None) -> Run:
    with observe(directory, seed=seed):
        torch.manual_seed(seed)
        made = make()
        for step in range(STEPS):
            if resume is not None and step == RESUMED:
                made = resume(made)
            model, teacher, optimizer = made
            inputs = torch.randn(16, 5)
            with torch.no_grad():
                wanted = teacher(inputs)
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), wanted).backward()
            optimizer.step()
    return load_run(directory)


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    place = tmp_path_factory.mktemp("golden")
    return learn([train(place / str(seed), seed) for seed in (0, 1)], pipeline="resumed", seeds=(0, 1))


def check(golden: Golden, directory: Path, resume: Callable[[Made], Made]) -> CheckOutcome:
    # What is loaded, and how often models are made, is said of whole runs.
    return check_run(golden, train(directory, 2, resume), same_spec=True, part=Part(goes_on=True))


@pytest.mark.parametrize("resume", [everything, the_optimizer_alone])
def test_a_training_that_resumes_as_it_was_is_one_training(
    golden: Golden, tmp_path: Path, resume: Callable[[Made], Made]
) -> None:
    assert not check(golden, tmp_path / "run", resume).incidents


@pytest.mark.parametrize("resume", [all_but_the_optimizer, an_optimizer_without_state])
def test_what_the_optimizer_has_lost_is_told(golden: Golden, tmp_path: Path, resume: Callable[[Made], Made]) -> None:
    incident, *others = check(golden, tmp_path / "run", resume).incidents
    assert not others
    assert (incident.cause.invariant.relation, incident.cause.step) == ("Carried", RESUMED)
    assert "the optimizer was made again" in incident.cause.title
