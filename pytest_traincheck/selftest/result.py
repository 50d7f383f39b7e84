"""The fates of planted mistakes and the kill rate. Pure data; reports are functions of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from pytest_traincheck.check.result import CheckResult, Incident, Outcome
from pytest_traincheck.mutants.kind import Kind


class Fate(str, Enum):
    """What became of one mutant: the pipeline with one planted mistake."""

    SURVIVED = "survived"
    """It trained differently, and the check passed."""
    KILLED = "killed"
    """The check found an incident, or too few rules to go by."""
    CRASHED = "did not finish"
    """The run itself failed, hung or left no usable trace, which nobody overlooks."""
    EQUIVALENT = "equivalent"
    """It trained the same to the last bit, and the check passed."""
    NOT_APPLICABLE = "not applicable"
    """There is no place for the mistake in this pipeline."""


@dataclass(frozen=True)
class Mutant:
    """One kind of mistake in one pipeline.

    `applied` counts the places where it was made, over all processes; `incident` is the first that a check found;
    `detail` says in words what an incident cannot: why a run did not finish, or why there was no place.
    """

    kind: Kind
    fate: Fate
    applied: int = 0
    incident: Incident | None = None
    incidents: int = 0
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class SelftestResult:
    """Everything that the selftest of one pipeline found.

    `unchanged` is the check of the pipeline without any mistake; with incidents or errors nothing was planted.
    """

    unchanged: CheckResult
    mutants: tuple[Mutant, ...] = ()
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    floor: float | None = None
    """The least kill rate that was asked for."""

    @property
    def pipeline(self) -> str:
        return self.unchanged.pipeline

    @property
    def is_measured(self) -> bool:
        """Whether at least one mistake was killed or survived."""
        return counted(self.mutants) > 0

    @property
    def kill_rate(self) -> float:
        return kill_rate(self.mutants)

    @property
    def outcome(self) -> Outcome:
        """An error where nothing could be measured, a failure below the floor."""
        if self.unchanged.errors or (not self.unchanged.incidents and not self.is_measured):
            return Outcome.ERROR
        if self.unchanged.incidents:
            return Outcome.FAIL
        return Outcome.FAIL if self.floor is not None and self.kill_rate < self.floor else Outcome.PASS

    def of(self, fate: Fate) -> tuple[Mutant, ...]:
        return tuple(mutant for mutant in self.mutants if mutant.fate is fate)


def counted(mutants: Iterable[Mutant]) -> int:
    """How many mutants enter into the kill rate."""
    return sum(mutant.fate in (Fate.KILLED, Fate.CRASHED, Fate.SURVIVED) for mutant in mutants)


def kill_rate(mutants: Iterable[Mutant]) -> float:
    """The share of the mutants that were killed, among those killed and survived; 0 where there is none."""
    known = tuple(mutants)
    survived = sum(mutant.fate is Fate.SURVIVED for mutant in known)
    total = counted(known)
    return (total - survived) / total if total else 0.0
