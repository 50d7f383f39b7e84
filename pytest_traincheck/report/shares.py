"""How many of an item's rules its outcome rests on, and why not on the others. Pure functions of verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_traincheck.check.result import InvariantVerdict, Verdict
from pytest_traincheck.text import one_line, plural

PROPERTY = "traincheck_rules"
"""Property of a report: how many of the item's rules were evaluated, in words."""

_SHOWN = 3
"""Different reasons that are listed."""


def is_evaluated(item: InvariantVerdict) -> bool:
    """Whether a rule was looked at in the run, whatever came of it."""
    return item.verdict not in (Verdict.NOT_TRIGGERED, Verdict.NOT_OBSERVABLE)


def share(rules: Sequence[InvariantVerdict]) -> str:
    """ "2 of 5 rules evaluated", or "5 rules evaluated" where that is all."""
    number = sum(map(is_evaluated, rules))
    return f"{plural(number, 'rule')} evaluated" if number == len(rules) else f"{_of(number, len(rules))} evaluated"


def unevaluated(rules: Sequence[InvariantVerdict]) -> list[str]:
    """Why rules were not evaluated, with how many share the reason; empty where all were."""
    tally: dict[str, int] = {}
    for item in rules:
        if not is_evaluated(item):
            reason = f"{item.verdict.value}: {one_line(item.reason)}" if item.reason else item.verdict.value
            tally[reason] = tally.get(reason, 0) + 1
    found = [f"{count} {reason}" for reason, count in sorted(tally.items(), key=lambda entry: -entry[1])]
    return [*found[:_SHOWN], *([f"and {plural(len(found) - _SHOWN, 'more reason')}"] if len(found) > _SHOWN else [])]


def unchecked(rules: Sequence[InvariantVerdict]) -> str:
    """Why nothing was checked; empty when at least one rule was."""
    if any(map(is_evaluated, rules)):
        return ""
    reasons = list(dict.fromkeys(one_line(item.reason) for item in rules if item.reason))
    kinds = " and ".join(dict.fromkeys(item.verdict.value for item in rules))
    return f"{kinds}: {'; '.join(reasons[:_SHOWN])}" if reasons else kinds


def _of(number: int, total: int) -> str:
    return f"{number} of {plural(total, 'rule')}"
