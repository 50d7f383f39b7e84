"""How many numbers a random generator has drawn is read from its state, whatever drew them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from pytest_traincheck.probe.advance import Advance  # noqa: E402


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """The tests leave the generators as they found them."""
    kept = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        random.seed(7)
        np.random.seed(7)
        yield
    random.setstate(kept[0])
    np.random.set_state(kept[1])


def started() -> Advance:
    advance = Advance()
    advance.begin()
    return advance


@pytest.mark.parametrize(
    ("draw", "generator", "numbers"),
    [
        (lambda: torch.rand(3), "torch", 3),
        (lambda: torch.rand(623), "torch", 623),
        (lambda: torch.rand(624), "torch", 624),
        (lambda: torch.rand(625), "torch", 625),
        (lambda: torch.randn(100_000), "torch", 100_000),
        (lambda: torch.empty(160).normal_(), "torch", 160),
        (lambda: torch.randint(5, (700,)), "torch", 700),
        (lambda: torch.rand(5, dtype=torch.float64), "torch", 10),
        (lambda: [random.random() for _ in range(1000)], "python", 2000),
        (lambda: np.random.rand(500), "numpy", 1000),
    ],
)
def test_what_is_drawn_is_counted(draw: Callable[[], Any], generator: str, numbers: int) -> None:
    advance = started()
    draw()
    found = advance.look()
    assert found == {"torch": 0.0, "python": 0.0, "numpy": 0.0, generator: float(numbers)}
    assert set(advance.look().values()) == {0.0}


def test_looking_moves_nothing() -> None:
    before = torch.get_rng_state(), random.getstate(), repr(np.random.get_state())
    advance = started()
    advance.look()
    after = torch.get_rng_state(), random.getstate(), repr(np.random.get_state())
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]
    torch.rand(2000)
    drawn = torch.get_rng_state()
    advance.look()
    assert torch.equal(torch.get_rng_state(), drawn)


def test_a_first_look_has_nothing_to_compare_with() -> None:
    assert all(math.isnan(count) for count in Advance().look().values())


@pytest.mark.parametrize("back", [lambda: torch.manual_seed(8), lambda: torch.rand(3_000_000 * 2)])
def test_a_state_that_is_too_far_or_cannot_be_reached_has_moved_nobody_knows_how_far(back: Callable[[], Any]) -> None:
    advance = started()
    back()
    assert advance.look()["torch"] == math.inf
    torch.rand(10)
    assert advance.look()["torch"] == 10


def test_a_state_that_was_put_back_is_not_a_negative_number_of_draws() -> None:
    torch.rand(20)
    kept = torch.get_rng_state()
    torch.rand(20)
    advance = started()
    torch.set_rng_state(kept)
    assert advance.look()["torch"] == math.inf


def test_what_is_set_aside_does_not_count() -> None:
    advance = started()
    torch.rand(30)
    advance.hold()
    torch.rand(2000)
    random.random()
    advance.go_on()
    torch.rand(4)
    assert advance.look() == {"torch": 34.0, "python": 0.0, "numpy": 0.0}
