"""How often a band is wrong, and what it finds: simulated golden runs and candidates."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_traincheck.relations.interval import intervals, multiple, reach_of_few, trimmed_mean


def simulate(
    pipelines: int, *, seeds: int = 3, names: int = 300, uneven: float = 0.5, common: float = 0.0, floor: float = 0.7
) -> float:
    """Share of simulated pipelines with a false alarm.

    The logarithms of the numbers scatter by 0.1 in the middle, by factors of exp(`uneven`) more or less from name to
    name, and all together by `common`.
    """
    chance = np.random.default_rng(0)
    alarms = 0
    for _ in range(pipelines):
        sigma = 0.1 * np.exp(uneven * chance.standard_normal(names))
        runs = sigma * chance.standard_normal((seeds + 1, names)) + common * chance.standard_normal((seeds + 1, 1))
        golden, candidate = runs[:seeds], runs[seeds]
        low, high = intervals(golden, golden.std(axis=0, ddof=1), np.full(names, floor), np.ones(names))
        alarms += bool(((candidate < low) | (candidate > high)).any())
    return alarms / pipelines


@pytest.mark.parametrize(
    "world",
    [
        {"uneven": 0.5},
        {"uneven": 0.5, "floor": 0.0},
        {"uneven": 1.0},
        {"uneven": 0.5, "common": 0.2},
        {"uneven": 0.5, "common": 1.0, "names": 30},
        {"uneven": 0.5, "seeds": 2},
        {"uneven": 0.5, "seeds": 5},
        {"uneven": 0.5, "seeds": 10},
    ],
    ids=str,
)
def test_false_alarms_are_rare(world: dict[str, float]) -> None:
    assert simulate(600, **world) < 0.01  # type: ignore[arg-type]


def test_without_what_names_share_false_alarms_are_many() -> None:
    """The mistake that the shared spread is there to prevent: three runs of one name say too little about it."""
    chance = np.random.default_rng(0)
    alarms = 0
    for _ in range(200):
        runs = 0.1 * chance.standard_normal((4, 300))
        golden = runs[:3]
        width = multiple(3) * golden.std(axis=0, ddof=1)
        alarms += bool((np.abs(runs[3] - golden.mean(axis=0)) > width).any())
    assert alarms / 200 > 0.5


def test_one_pooled_number_is_rarely_wrong_and_finds_a_factor_of_four() -> None:
    chance = np.random.default_rng(0)
    wrong = missed = 0
    for _ in range(2000):
        runs = 0.08 * chance.standard_normal((4, 1))
        low, high = intervals(runs[:3], runs[:3].std(axis=0, ddof=1), np.array([0.5]), np.ones(1))
        wrong += not low[0] <= runs[3, 0] <= high[0]
        missed += bool(runs[3, 0] + np.log(4) <= high[0])
    assert wrong / 2000 < 0.001
    assert missed / 2000 < 0.2


@pytest.mark.parametrize("elements", [1, 2, 3, 5, 10, 32, 100, 1000])
@pytest.mark.parametrize("uniform", [False, True])
def test_norms_of_a_few_random_elements_stay_in_reach(elements: int, uniform: bool) -> None:
    chance = np.random.default_rng(0)
    shape = (5000, 4, elements)
    values = chance.uniform(-1, 1, shape) if uniform else chance.standard_normal(shape)
    norms = np.log(np.sqrt((values**2).mean(axis=2)))
    distance = np.abs(norms[:, 3] - norms[:, :3].mean(axis=1))
    reach = reach_of_few(np.array([float(elements)]))[0]
    assert (distance > reach).mean() < 0.0003
    # And not much further than need be.
    assert elements < 100 or (distance > reach / 3).any()


def test_more_golden_runs_make_narrower_bands() -> None:
    widths = [multiple(runs) for runs in range(2, 12)]
    assert widths == sorted(widths, reverse=True)
    assert multiple(3) == pytest.approx(11.46, abs=0.01)
    assert multiple(50) == 8.0


def test_a_few_names_gone_astray_do_not_speak_for_all() -> None:
    assert trimmed_mean(np.array([0.0, 0.1, -0.1, 0.0, 0.05, -0.05, 0.0, -9.0])) == pytest.approx(0.0, abs=0.03)
