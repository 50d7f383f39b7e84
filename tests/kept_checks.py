"""Histories as CI would have kept them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from pytest_traincheck.check.result import Outcome
from pytest_traincheck.history.record import Broke, Entry, Exempted, Origin, Record

BEGIN = datetime(2026, 11, 1, 12, tzinfo=timezone.utc)
LEFT_OVER = Broke("000094011587", "`zero_grad` is missing", "Accumulate", "behaviour", "SGD.zero_grad", "train.py:15")
WARM_UP = Broke("1f0c93d2a7be", "The learning rate warms up longer", "Schedule", "config", "SGD.lr", "train.py:9")
FIRST = Origin("aaaa", "", "Ada")
SECOND = Origin("bbbb", "longer warm-up", "Grace")
LATE = Exempted("229c44626f6c", "The learning rate stays.", "accepted until 2027-01-31 by vision: retuned")


def check(day: int, *broke: Broke, branch: str = "main", **more: object) -> Record:
    """A check of `net`, so many days after the first; it took as many seconds."""
    outcome = Outcome.FAIL if broke else Outcome.PASS
    values: dict[str, object] = {"golden": FIRST, "rules": 70, "silent": ("a", "b"), "coverage": 1.0}
    values |= {"seconds": {"golden": 0.0, "candidate": 3.0 + day, "check": 0.5}, "incidents": broke}
    entry = Entry("net", outcome, **{**values, **more})  # type: ignore[arg-type]
    return Record(BEGIN + timedelta(days=day), "check", f"{day:040x}", branch, outcome, (entry,))


def selftest_of(day: int, rate: float, *survivors: str) -> Record:
    """A selftest."""
    entry = Entry("net", Outcome.PASS, rules=70, seconds={"selftest": 90.0}, kill_rate=rate, survivors=survivors)
    return Record(BEGIN + timedelta(days=day), "selftest", f"{day:040x}", "main", Outcome.PASS, (entry,))


def a_month() -> list[Record]:
    """A bug that came and went on a branch, a change that was meant, an exception, and a selftest before and after."""
    return [
        check(0),
        selftest_of(1, 0.9, "loss-scaled", "betas-changed"),
        check(2, LEFT_OVER, branch="tidy", silent=("a",)),
        check(3, LEFT_OVER, branch="tidy"),
        check(3),
        check(4, branch="tidy"),
        check(5, WARM_UP, branch="warm"),
        check(6, golden=SECOND, rules=71, silent=("b", "c"), accepted=(LATE,)),
        check(7, golden=SECOND, rules=71, silent=("b", "c"), accepted=(LATE,)),
        check(8, golden=SECOND, rules=71, silent=("b",)),
        selftest_of(9, 0.95, "betas-changed"),
    ]
