"""What a refresh of one pipeline came to, as its page needs it. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_traincheck.check.result import CheckResult, Incident, Outcome
from pytest_traincheck.golden.diff import GoldenDiff
from pytest_traincheck.rules.model import Invariant


@dataclass(frozen=True)
class Refreshed:
    """`result` is the check of what was learned against the former golden, `change` how the rules differ from it, None
    where there was none or nothing changed. `refused` are incidents that nobody said were meant: then nothing was
    written. `became` says what became of the golden.
    """

    result: CheckResult
    became: str
    change: GoldenDiff | None = None
    learned: tuple[Invariant, ...] = ()
    reason: str = ""
    accepted: tuple[Incident, ...] = ()
    refused: tuple[Incident, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    """What to type where all that was refused is intended."""

    @property
    def outcome(self) -> Outcome:
        if self.result.errors:
            return Outcome.ERROR
        return Outcome.FAIL if self.refused else Outcome.PASS
