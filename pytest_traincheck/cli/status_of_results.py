"""The exit status that results mean."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_traincheck.check.result import CheckResult, Outcome
from pytest_traincheck.cli.status import Status


def status_of(results: Iterable[CheckResult]) -> Status:
    """The worst of several results; no result at all is bad input, since nothing was checked."""
    return status_of_outcomes(result.outcome for result in results)


def status_of_outcomes(outcomes: Iterable[Outcome]) -> Status:
    """The same for how results ended."""
    outcomes = set(outcomes)
    if not outcomes:
        return Status.BAD_INPUT
    if Outcome.ERROR in outcomes:
        return Status.RUN_FAILED
    return Status.INCIDENTS if Outcome.FAIL in outcomes else Status.CLEAN
