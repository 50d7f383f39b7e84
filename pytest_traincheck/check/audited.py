"""The audit artefact: what a run without a golden breaks, and what was looked at. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_traincheck.check.result import Incident, Outcome, RunError, SideInfo, Verdict, Warned
from pytest_traincheck.packs.model import Level, PackRule

FINDINGS_SHOWN = 10
"""Nobody reads more; what is left out is counted."""


@dataclass(frozen=True)
class PackUse:
    """A pack that was at hand. `reason` says why it has nothing to say about the run; empty where it has."""

    name: str
    library: str
    rules: int
    reason: str = ""


@dataclass(frozen=True)
class LawVerdict:
    """What became of one rule of a pack, with the reason where it was not evaluated."""

    rule: PackRule
    pack: str
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True)
class AuditFinding:
    """What one mistake breaks: an incident, the rule that tells of it, and those of its consequences."""

    incident: Incident
    rule: PackRule
    others: tuple[PackRule, ...] = ()

    @property
    def level(self) -> str:
        """`error` or `warning`."""
        return self.rule.level.report

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all rules in it."""
        return tuple(dict.fromkeys((self.rule.id, *(rule.id for rule in self.others))))


@dataclass(frozen=True)
class Silenced:
    """A finding that somebody allowed, and why."""

    finding: AuditFinding
    reason: str
    owner: str = ""


@dataclass(frozen=True)
class Audit:
    """Everything that the audit of one run found. With `strict` a warning fails it as an error does."""

    name: str
    packs: tuple[PackUse, ...] = ()
    verdicts: tuple[LawVerdict, ...] = ()
    findings: tuple[AuditFinding, ...] = ()
    """Errors first, the worst first."""
    silenced: tuple[Silenced, ...] = ()
    libraries: Mapping[str, str] = field(default_factory=dict)
    """What the run used, with versions."""
    steps: int = 0
    errors: tuple[RunError, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[Warned, ...] = ()
    candidate: SideInfo = field(default_factory=SideInfo)
    strict: bool = False
    run_s: float = 0.0
    check_s: float = 0.0

    @property
    def shown(self) -> tuple[AuditFinding, ...]:
        """The findings that reports tell."""
        return self.findings[:FINDINGS_SHOWN]

    @property
    def outcome(self) -> Outcome:
        if self.errors:
            return Outcome.ERROR
        failing = any(item.rule.level is Level.LAW or self.strict for item in self.findings)
        return Outcome.FAIL if failing else Outcome.PASS

    def level(self, level: Level) -> int:
        """How many findings are of a level."""
        return sum(item.rule.level is level for item in self.findings)

    def laws(self) -> dict[str, int]:
        """How many rules, by name, there are, and what became of them. A rule of several claims held where each that
        came up did.
        """
        by_name: dict[str, set[Verdict]] = {}
        for item in self.verdicts:
            by_name.setdefault(item.rule.id, set()).add(item.verdict)
        counts = {"known": len(by_name), "held": 0, "broken": 0, "not_triggered": 0, "not_observable": 0}
        for verdicts in by_name.values():
            counts[_COUNTED[next(verdict for verdict in _COUNTED if verdict in verdicts)]] += 1
        return counts


_COUNTED = {
    Verdict.VIOLATED: "broken",
    Verdict.HELD: "held",
    Verdict.NOT_OBSERVABLE: "not_observable",
    Verdict.NOT_TRIGGERED: "not_triggered",
}
