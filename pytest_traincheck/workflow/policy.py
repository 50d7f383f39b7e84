"""Accepted exceptions and policy, applied to what a check found. Pure functions; today's date is an argument."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from pytest_traincheck.check.result import Incident, InvariantVerdict, Verdict, Violation, incident_id
from pytest_traincheck.config import Accept, Config
from pytest_traincheck.golden.format_1 import ids_of
from pytest_traincheck.rules.model import Invariant
from pytest_traincheck.workflow.packs import AuditPlan, audit_plan


@dataclass(frozen=True)
class Rules:
    """What may be broken: exceptions on file, and the policy by subject, relation or kind."""

    accept: tuple[Accept, ...]
    policy: Mapping[str, str]
    today: datetime.date
    strict: bool = False
    """Whether coverage under golden's floor fails."""
    fail_fast: bool = False
    """Whether a run is ended at its first incident."""
    audit: AuditPlan | None = None
    """What runs of candidates are audited with; None where they are not."""

    def excuse(self, invariant: Invariant, value: str = "") -> str:
        """Why breaking this invariant, with this value in place of golden's, is no failure; empty when it is one."""
        for entry in self.accept:
            if entry.expires >= self.today and matches(entry, invariant) and entry.value in ("", value):
                return f"accepted until {entry.expires} by {entry.owner}: {entry.reason}"
        level = self.level(invariant)
        return "" if level == "fail" else f"policy: {level}"

    def outgrown(self, violation: Violation) -> str:
        """What a reader should know where an exception speaks of the invariant, but of another value."""
        for entry in self.accept:
            if entry.expires >= self.today and matches(entry, violation.invariant) and entry.value:
                return (
                    f"{entry.owner} accepted {entry.value} for {violation.invariant.id} "
                    f"({violation.invariant.subject}) until {entry.expires}; it is {violation.value or 'another'} now"
                )
        return ""

    def level(self, invariant: Invariant) -> str:
        """`fail`, `warn` or `off`. What is named more closely wins: the subject, then the relation, then the kind."""
        for name, value in self.policy.items():
            if fnmatchcase(invariant.subject, name):
                return value
        for name in (invariant.relation, invariant.kind.value):
            if name in self.policy:
                return self.policy[name]
        return "fail"


NO_RULES = Rules((), {}, datetime.date.min)


def rules_of(config: Config) -> Rules:
    """The configured exceptions and policy, as of today."""
    today = datetime.datetime.now(datetime.timezone.utc).date()
    audit = audit_plan(config) if config.audits else None
    return Rules(config.accept, config.policy, today, config.strict, config.fail_fast, audit)


def matches(entry: Accept, invariant: Invariant) -> bool:
    """Whether an exception on file speaks of this invariant: by id, today's or that of format 1, or by subject; all as
    globs.
    """
    # `SGD[Net]` is a subject as well as a glob.
    names = (invariant.subject, *ids_of(invariant))
    return entry.invariant in names or any(fnmatchcase(name, entry.invariant) for name in names)


@dataclass(frozen=True)
class Judged:
    """Verdicts and incidents after the rules, and what a reader should still know."""

    verdicts: tuple[InvariantVerdict, ...]
    incidents: tuple[Incident, ...]
    notes: tuple[str, ...]


def judge(verdicts: Sequence[InvariantVerdict], incidents: Sequence[Incident], rules: Rules) -> Judged:
    """Turn excused violations into `accepted`; an incident keeps what is not excused, and goes when nothing is left.

    When the root of an incident is excused and a consequence is not, the first such consequence becomes the root:
    an exception speaks of the rules it names and of no others.
    """
    kept: list[Incident] = []
    notes: list[str] = []
    for incident in incidents:
        broken = tuple(item for item in incident.violations if not rules.excuse(item.invariant, item.value))
        notes += [note for item in broken if (note := rules.outgrown(item))]
        if broken:
            # The id is that of what the incident says: without its root it says something else.
            identity = incident.id if broken[0] is incident.cause else incident_id(broken[0], broken[1:])
            kept.append(replace(incident, id=identity, number=len(kept) + 1, cause=broken[0], consequences=broken[1:]))
        elif any(rules.level(item.invariant) == "warn" for item in incident.violations):
            notes.append(f"warning (policy): {incident.cause.title}")
    values = {item.invariant.id: item.value for incident in incidents for item in incident.violations}
    return Judged(tuple(_judge_verdict(item, rules, values) for item in verdicts), tuple(kept), tuple(notes))


def _judge_verdict(item: InvariantVerdict, rules: Rules, values: Mapping[str, str]) -> InvariantVerdict:
    if item.verdict is not Verdict.VIOLATED:
        return item
    excuse = rules.excuse(item.invariant, values.get(item.invariant.id, ""))
    return replace(item, verdict=Verdict.ACCEPTED, reason=excuse) if excuse else item
