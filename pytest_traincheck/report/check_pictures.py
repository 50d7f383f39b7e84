"""The pictures of a check, those first that say where things went wrong."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_traincheck.check.result import CONFIGURATION, CheckResult
from pytest_traincheck.golden.portrait import Portrait
from pytest_traincheck.report.pictures.curves import curves
from pytest_traincheck.report.pictures.groups import groups
from pytest_traincheck.report.pictures.observed import observed
from pytest_traincheck.report.pictures.picture import Picture
from pytest_traincheck.report.pictures.ranks import ranks
from pytest_traincheck.report.pictures.stripes import stripes
from pytest_traincheck.report.pictures.timeline import timeline
from pytest_traincheck.report.pictures.tree import tree


def pictures_of(result: CheckResult) -> list[Picture]:
    """Every picture for which there is something to draw."""
    last = observed(result)
    return [*portrayed(result), *([last] if last is not None else [])]


def portrayed(result: CheckResult) -> list[Picture]:
    """Those that show both runs, and not the rules."""
    modules = tree(result.modules)
    if result.portraits is None:
        return [modules] if modules is not None else []
    return of_portraits(
        result.portraits.candidate, result.portraits.golden, first_bad_step(result), [modules] if modules else []
    )


def of_portraits(
    candidate: Portrait, golden: Portrait | None, bad: int | None = None, between: Sequence[Picture] = ()
) -> list[Picture]:
    """How the training went, what was called, then `between`, then who was given and who holds what."""
    found = [
        curves(candidate, golden, bad),
        timeline(candidate, golden, bad),
        *between,
        stripes(candidate, golden),
        groups(candidate, golden),
        ranks(candidate, golden),
    ]
    return [picture for picture in found if picture is not None]


def first_bad_step(result: CheckResult) -> int | None:
    """The first step of training in which a rule is broken; what is wrong from the beginning is so in step 0."""
    steps = [
        0 if incident.cause.stage == "init" else incident.cause.step
        for incident in result.incidents
        if incident.cause.stage != CONFIGURATION and incident.cause.step >= 0
    ]
    return min(steps, default=None)
