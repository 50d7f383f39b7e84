"""What a comparison of the detection benchmark was, and what came out of it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from measure import REPOSITORY
from planted import Bug, Pipeline

sys.path.insert(0, str(REPOSITORY))

from pytest_traincheck.check.result import Incident

FEATURE_LIMIT = 3
"""Incidents that a legitimate feature may cause."""


class Variation(str, Enum):
    """How a candidate differs from the golden."""

    BUG = "bug"
    SEED = "seed"
    REFACTOR = "refactor"
    FEATURE = "feature"


@dataclass(frozen=True)
class Case:
    """One candidate: the pipeline with a patch, or as it is under another seed."""

    name: str
    pipeline: Pipeline
    variation: Variation
    patch: Path | None
    seed: int
    bug: Bug | None = None


@dataclass(frozen=True)
class Judged:
    """The incidents of one candidate, or the problem that kept it from being judged."""

    case: Case
    incidents: tuple[Incident, ...] = ()
    rules: int = 0
    problem: str = ""
    seconds: float = 0.0
    check_seconds: float = 0.0

    @property
    def found(self) -> bool:
        return bool(self.incidents)

    @property
    def cause(self) -> str:
        """`exact` when the first incident names the cause, `near` when it names a close symptom, else `missed`."""
        if not self.incidents or self.case.bug is None:
            return "missed"
        root = self.incidents[0].cause
        text = f"{root.title}\n{root.invariant.subject}".lower()
        if any(word in text for word in self.case.bug.cause):
            return "exact"
        return "near" if any(word in text for word in self.case.bug.near) else "missed"

    @property
    def in_time(self) -> bool:
        """Found in the first two steps, or at the step where the bug first acts."""
        if not self.incidents or self.case.bug is None:
            return False
        step = min(incident.cause.step for incident in self.incidents)
        return step <= max(1, *self.case.bug.steps)

    @property
    def as_expected(self) -> bool:
        if self.problem:
            return False
        if self.case.variation is Variation.BUG:
            return self.found
        return len(self.incidents) <= (FEATURE_LIMIT if self.case.variation is Variation.FEATURE else 0)

    def complaint(self) -> str:
        """One line for a case that is not as expected."""
        detail = self.problem or "; ".join(incident.cause.title for incident in self.incidents) or "no incident"
        return f"{self.case.pipeline.name}, {self.case.name}: {detail}"
