"""Which broken settings were decided together: what one person wrote once is one incident, and nothing more than that.

A program often writes a number once and uses it in several places (a learning rate for all groups, a tenth of it for
one of them), so settings of one sort that were multiplied by the same factor are one decision. So are values that were
handed on, as when parameters moved from one group to another.
"""

from __future__ import annotations

import math

from pytest_traincheck.check.result import Violation
from pytest_traincheck.relations.settings import Setting, Sort, each_of, steps_of_course

_DECAYS = 32
"""By so many more factors two rates may differ."""
_PRECISION = 1e-5
"""Values are known as texts of six significant digits."""


def decided_together(violation: Violation, other: Violation) -> bool | None:
    """Whether one decision explains two violations; None where they are not both about settings that are decided."""
    ours, theirs = violation.meaning.setting, other.meaning.setting
    if ours is None or theirs is None:
        return None
    changes = (ours.value, violation.value), (theirs.value, other.value)
    if ours.is_rate and theirs.is_rate:
        later = violation.step != other.step and violation.invariant.subject == other.invariant.subject
        return _same_change(*changes) or (later and _same_decay(*changes))
    if ours.sort is theirs.sort is Sort.PARAMETERS:
        if ours.name == theirs.name:
            return _same_change(*changes)
        # Parameters that went from one group to another take all the values of that group.
        return bool(violation.variables) and set(violation.variables) == set(other.variables)
    if ours.sort is theirs.sort is Sort.COURSE:
        return _same_course((ours, violation.value), (theirs, other.value))
    if _is_setting_of_rate(ours) and _is_setting_of_rate(theirs):
        return False
    if ours.sort is theirs.sort is Sort.ARGUMENT and violation.invariant.subject == other.invariant.subject:
        if ours.name == theirs.name:
            return _same_change(*changes)
        # One may be the other in other words (a mask, or `is_causal`), but not two numbers.
        return False if all(ours.is_amount(text) for change in changes for text in change) else None
    return None


def _is_setting_of_rate(setting: Setting) -> bool:
    """A rate, or the course that it takes by its base."""
    return setting.is_rate or setting.sort is Sort.COURSE


def _same_course(ours: tuple[Setting, str], theirs: tuple[Setting, str]) -> bool:
    """Whether what golden had became the same in both, wherever both had it: one may be the other resumed later."""
    became, became_too = _by_factor(*ours), _by_factor(*theirs)
    shared = became.keys() & became_too.keys()
    return bool(shared) and all(became[factor] & became_too[factor] for factor in shared)


def _by_factor(setting: Setting, value: str) -> dict[str, set[str]]:
    """What each factor of golden's course became."""
    found: dict[str, set[str]] = {}
    for factor, now in zip(setting.course, steps_of_course(value), strict=False):
        if factor is not None:
            found.setdefault(factor, set()).add(now)
    return found


def _same_change(change: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether two values, each as what it was and what it is now, changed to the same, by the same factor, or one into
    the other.
    """
    (was, now), (was_too, now_too) = change, other
    if was == was_too:
        return now == now_too or now in each_of(now_too) or now_too in each_of(now)
    if now == was_too or now_too == was:
        return True
    factor, factor_too = _factor(was, now), _factor(was_too, now_too)
    return factor is not None and factor_too is not None and math.isclose(factor, factor_too, rel_tol=_PRECISION)


def _same_decay(change: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether two rates, of optimizers that were made one after the other, changed by powers of one factor: what lets
    the rate fall comes more often, or less often, all along.
    """
    factors = [_factor(*change), _factor(*other)]
    if any(factor is None or factor <= 0 or factor == 1 for factor in factors):
        return False
    first, second = sorted(abs(math.log(factor)) for factor in factors if factor is not None)
    return second / first <= _DECAYS and math.isclose(second / first, round(second / first), rel_tol=_PRECISION)


def handed_on(change: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether a value, as what it was and what it is now, may be the other or what that was computed from. What
    equals the default of a function is not seen in its calls, so one side is enough.
    """
    return change[0] == other[0] or change[1] == other[1] or _same_change(change, other)


def _factor(was: str, now: str) -> float | None:
    try:
        return float(now) / float(was)
    except (ValueError, ZeroDivisionError):
        return None
