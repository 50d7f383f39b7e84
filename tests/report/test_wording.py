"""Small phrases that every reporter uses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_traincheck.check.result import CheckResult, ModuleAgreement, Verdict
from pytest_traincheck.report.wording import agreement, clean, number_ranges, seconds, shortened, verdict_summary


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


def test_little_is_rounding_only_where_nothing_was_found(failed: CheckResult, passed: CheckResult) -> None:
    modules = (ModuleAgreement("Net", "same", 0.0, 4), ModuleAgreement("Net.fc", "drifted", 1e-7, 4))
    told = [agreement(replace(result, modules=modules)).partition(" (")[0] for result in (passed, failed)]
    assert told == ["1 of 2 modules the same, 1 up to rounding", "1 of 2 modules the same, 1 slightly different"]


def test_what_was_told_before_is_not_counted_as_broken_anew(passed: CheckResult) -> None:
    held, other = passed.verdicts
    known = replace(other, verdict=Verdict.VIOLATED, reason="it was told before")
    result = replace(passed, verdicts=(held, known))
    assert verdict_summary(result) == "1 of 2 rules held, 1 rule still broken, as reported before"
