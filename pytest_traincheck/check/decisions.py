"""Which broken settings were decided together: what one person wrote once is one incident, and nothing more than that.

A program often writes a number once and uses it in several places (a learning rate for all groups, a tenth of it for
one of them), so settings of one sort that were multiplied by the same factor are one decision. So are values that were
handed on, as when parameters moved from one group to another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pytest_traincheck.check.result import Violation
from pytest_traincheck.relations.api_arg import SET_BY_MODE
from pytest_traincheck.relations.hyperparameter import RATES, text_of
from pytest_traincheck.relations.schedule import is_base, is_relative

_PRECISION = 1e-5
"""Values are known as texts of six significant digits."""


def decided_together(violation: Violation, other: Violation) -> bool | None:
    """Whether one decision explains two violations; None where they are not both about settings that are decided."""
    ours, theirs = violation.invariant, other.invariant
    if _is_rate(violation) and _is_rate(other):
        return _same_change(violation, other)
    if ours.relation == theirs.relation == "Hyperparameter":
        if ours.claim.get("name") == theirs.claim.get("name"):
            return _same_change(violation, other)
        # Parameters that went from one group to another take all the values of that group.
        return bool(violation.variables) and set(violation.variables) == set(other.variables)
    if _is_course(violation) and _is_course(other):
        return _same_course(violation, other)
    if _is_setting_of_rate(violation) and _is_setting_of_rate(other):
        return False
    if ours.relation == theirs.relation == "APIArg" and ours.subject == theirs.subject:
        return _arguments(violation, other)
    return None


def _is_rate(violation: Violation) -> bool:
    """A learning rate that an optimizer, a group or a scheduler was given."""
    rule = violation.invariant
    if rule.relation == "Schedule":
        return is_base(rule.claim)
    return rule.relation == "Hyperparameter" and rule.claim.get("name") in RATES


def _is_course(violation: Violation) -> bool:
    return violation.invariant.relation == "Schedule" and is_relative(violation.invariant.claim)


def _is_setting_of_rate(violation: Violation) -> bool:
    """A rate, or the course that it takes by its base."""
    return _is_rate(violation) or _is_course(violation)


def _same_course(violation: Violation, other: Violation) -> bool:
    """Whether what golden had became the same in both, wherever both had it: one may be the other resumed later."""
    ours, theirs = _by_factor(violation), _by_factor(other)
    shared = ours.keys() & theirs.keys()
    return bool(shared) and all(ours[factor] & theirs[factor] for factor in shared)


def _by_factor(violation: Violation) -> dict[str, set[str]]:
    """What each factor of golden's course became."""
    found: dict[str, set[str]] = {}
    became = violation.value.split(", ")
    for factor, now in zip(violation.invariant.claim["factors"], became, strict=False):
        if factor is not None:
            found.setdefault(text_of(factor), set()).add(now)
    return found


def _arguments(violation: Violation, other: Violation) -> bool | None:
    """Arguments of one function. One may be the other in other words (a mask, or `is_causal`), but not two numbers."""
    ours, theirs = violation.invariant.claim, other.invariant.claim
    names = {ours.get("argument"), theirs.get("argument")}
    if None in names or names & set(SET_BY_MODE):
        return None
    if len(names) == 1:
        return _same_change(violation, other)
    texts = [str(ours["value"]), violation.value, str(theirs["value"]), other.value]
    return None if any(text in ("", "None") or text.startswith("a ") for text in texts) else False


def _same_change(violation: Violation, other: Violation) -> bool:
    """Whether two values changed to the same, by the same factor, or one into the other."""
    was, now = _change(violation)
    was_too, now_too = _change(other)
    if was == was_too:
        return now == now_too or now in now_too.split(" and ") or now_too in now.split(" and ")
    if now == was_too or now_too == was:
        return True
    factor, factor_too = _factor(was, now), _factor(was_too, now_too)
    return factor is not None and factor_too is not None and math.isclose(factor, factor_too, rel_tol=_PRECISION)


def _change(violation: Violation) -> tuple[str, str]:
    claim: Mapping[str, Any] = violation.invariant.claim
    return text_of(claim["value"]), violation.value


def _factor(was: str, now: str) -> float | None:
    try:
        return float(now) / float(was)
    except (ValueError, ZeroDivisionError):
        return None
