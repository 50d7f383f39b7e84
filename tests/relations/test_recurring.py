"""What came every so many steps of golden's run goes on in a longer training, or is told of."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from real_training import recorded  # noqa: E402

from pytest_traincheck.check.result import Incident  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402
from pytest_traincheck.online.follow import Follower  # noqa: E402
from pytest_traincheck.relations.recurring import pace_of, stopped_after  # noqa: E402
from pytest_traincheck.trace.stretch import Stretch  # noqa: E402

SCHEDULER = "torch.optim.lr_scheduler.ReduceLROnPlateau.step"


def training(
    seed: int = 0,
    steps: int = 12,
    copies: Callable[[int], bool] = lambda step: step % 3 == 0,
    schedules: Callable[[int], bool] = lambda step: step % 4 == 0,
    used_until: int = 10_000,
    another_from: int = 10_000,
) -> None:
    """A network with a target that follows it now and then, and a schedule that goes by what was measured; from some
    step on the target may be of no use any more, or another optimizer train.
    """
    torch.manual_seed(seed)
    net = torch.nn.Linear(3, 1)
    target = copy.deepcopy(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=100)
    for step in range(1, steps + 1):
        states = torch.randn(8, 3)
        with torch.no_grad():
            wanted = 1 + 0.9 * target(states) if step <= used_until else torch.ones(8, 1)
        if step == another_from:
            optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(states), wanted)
        loss.backward()
        optimizer.step()
        if copies(step):
            target.load_state_dict(net.state_dict())
        if schedules(step):
            scheduler.step(loss.item())


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    folder = tmp_path_factory.mktemp("golden")
    runs = [recorded(partial(training, seed=seed), folder / str(seed)) for seed in range(3)]
    return learn(runs, pipeline="real", seeds=(0, 1, 2))


def incidents(golden: Golden, candidate: Callable[[], None], folder: Path) -> tuple[Incident, ...]:
    """What is found in a run that is longer than golden's."""
    recorded(candidate, folder)
    follower = Follower(folder, golden, same_spec=True, other_length=True)
    while not follower.over or follower.behind:
        follower.advance()
    return follower.finish().incidents


def told(golden: Golden, candidate: Callable[[], None], folder: Path) -> list[tuple[str, int]]:
    return [(incident.cause.title, incident.cause.step) for incident in incidents(golden, candidate, folder)]


def broken(golden: Golden, candidate: Callable[[], None], folder: Path) -> list[str]:
    """Titles of everything that is broken, also where something else is the cause."""
    return [each.title for incident in incidents(golden, candidate, folder) for each in incident.violations]


@pytest.mark.parametrize(("last", "since"), [(52, 56), (60, 80), (120, 124)])
def test_a_schedule_that_stops(golden: Golden, tmp_path: Path, last: int, since: int) -> None:
    """Later steps are judged 64 at a time, of which each knows no more than that it had come in the beginning."""
    stops = partial(training, steps=180, schedules=lambda step: step % 4 == 0 and step <= last)
    ((title, step),) = told(golden, stops, tmp_path / "run")
    assert (title, step) == (
        f"`{SCHEDULER}` was called after every 4 steps of the golden run, and in the beginning of the candidate; "
        f"from step {since} on it is not called any more.",
        since,
    )


def test_a_target_that_stays_behind(golden: Golden, tmp_path: Path) -> None:
    stays = partial(training, steps=150, copies=lambda step: step % 3 == 0 and step < 80)
    ((title, step),) = told(golden, stays, tmp_path / "run")
    assert title.endswith("from step 81 on they do not change any more: they are copied or averaged no longer.")
    assert step == 81


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"seed": 7},
        {"copies": lambda step: step % (3 if step < 40 else 9) == 0},
        {"used_until": 60, "copies": lambda step: step % 3 == 0 and step < 60},
        {"another_from": 60, "schedules": lambda step: step % 4 == 0 and step < 60},
        {"copies": lambda step: step == 3, "schedules": lambda step: step == 4},
    ],
    ids=["as golden", "another seed", "less often", "of no use", "another optimizer", "other from the first on"],
)
def test_what_is_no_fault(golden: Golden, tmp_path: Path, changes: dict[str, object]) -> None:
    found = broken(golden, partial(training, steps=150, **changes), tmp_path / "run")  # type: ignore[arg-type]
    assert not [title for title in found if "any more" in title]


@pytest.mark.parametrize(
    ("at", "steps", "pace"),
    [
        ((4, 8, 12, 16), 16, 4),
        ((0, 4, 8, 12), 16, 4),
        ((4, 8), 12, 0),
        ((4, 8, 12), 20, 0),
        ((2, 6, 10), 12, 0),
        ((1, 2, 3), 3, 0),
        ((), 4, 0),
    ],
)
def test_a_pace_is_kept_from_beginning_to_end(at: tuple[int, ...], steps: int, pace: int) -> None:
    assert pace_of(at, steps) == pace


def in_a_stretch(came: tuple[int, ...], joins: tuple[int, ...] = (), sampled: bool = False) -> int | None:
    """What is said of something that came in these of the first twelve steps, and in none of 64 behind the 32nd."""
    numbers = np.array([*range(12), *range(32, 97)])
    steps = [SimpleNamespace(row=row, optimizer=0) for row in range(76)]
    process: Any = SimpleNamespace(
        raw=SimpleNamespace(stretch=Stretch(begin=0, head=12, head_end=0, left_out=20), joins=joins),
        sampled=sampled, numbers=numbers, window=np.arange(77), windows=76, steps=steps,
        names=SimpleNamespace(optimizers=["SGD"]),
    )  # fmt: skip
    return stopped_after(process, np.array(came, dtype=np.int64), (4, 8, 12), 12)


def test_it_is_asked_only_of_what_came_as_in_golden_in_steps_that_are_all_there() -> None:
    assert in_a_stretch((4, 8)) == 36
    assert in_a_stretch((4,)) is None
    assert in_a_stretch((4, 8), joins=(5,)) is None
    assert in_a_stretch((4, 8), sampled=True) is None
