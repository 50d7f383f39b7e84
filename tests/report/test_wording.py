"""Small phrases that every reporter uses."""

from __future__ import annotations

import pytest

from pytest_traincheck.report.wording import clean, number_ranges, seconds, shortened


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((0,), "0"), ((1, 0), "0, 1"), ((0, 1, 2, 5), "0-2, 5"), ((7, 3, 3, 4, 5), "3-5, 7"), ((), "")],
)
def test_ranks(numbers: tuple[int, ...], text: str) -> None:
    assert number_ranges(numbers) == text


def test_variables() -> None:
    assert shortened(("a", "b", "c")) == "a, b, c"
    assert shortened(("a", "b", "c", "d", "e")) == "a, b, c +2 more"


def test_seconds() -> None:
    assert [seconds(value) for value in (0.041, 4.21, 312.4)] == ["0.04 s", "4.2 s", "312 s"]


def test_clean() -> None:
    assert clean("\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07\x00\n\tnext\r\n") == "red link\n\tnext\n"
