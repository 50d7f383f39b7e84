"""Accepted exceptions and policy, applied to what a check found. Pure functions; today's date is an argument."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from pytest_traincheck.check.result import Incident, InvariantVerdict, Verdict
from pytest_traincheck.config import Accept
from pytest_traincheck.golden.model import Invariant


@dataclass(frozen=True)
class Rules:
    """What may be broken: exceptions on file, and the policy by subject, relation or kind."""

    accept: tuple[Accept, ...]
    policy: Mapping[str, str]
    today: datetime.date
    strict: bool = False
    """Whether coverage under golden's floor fails."""

    def excuse(self, invariant: Invariant) -> str:
        """Why breaking this invariant is no failure; empty when it is one."""
        for entry in self.accept:
            if entry.expires >= self.today and matches(entry, invariant):
                return f"accepted until {entry.expires} by {entry.owner}: {entry.reason}"
        level = self.level(invariant)
        return "" if level == "fail" else f"policy: {level}"

    def level(self, invariant: Invariant) -> str:
        """`fail`, `warn` or `off`. What is named more closely wins: the subject, then the relation, then the kind."""
        for name, value in self.policy.items():
            if fnmatchcase(invariant.subject, name):
                return value
        for name in (invariant.relation, invariant.kind.value):
            if name in self.policy:
                return self.policy[name]
        return "fail"


def matches(entry: Accept, invariant: Invariant) -> bool:
    """Whether an exception on file speaks of this invariant: by id or by subject, both as globs."""
    # `SGD[Net]` is a subject as well as a glob.
    names = (invariant.id, invariant.subject)
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
        broken = tuple(item for item in incident.violations if not rules.excuse(item.invariant))
        if broken:
            kept.append(replace(incident, rank=len(kept) + 1, root=broken[0], consequences=broken[1:]))
        elif any(rules.level(item.invariant) == "warn" for item in incident.violations):
            notes.append(f"warning (policy): {incident.root.title}")
    return Judged(tuple(_judge_verdict(item, rules) for item in verdicts), tuple(kept), tuple(notes))


def _judge_verdict(item: InvariantVerdict, rules: Rules) -> InvariantVerdict:
    if item.verdict is not Verdict.VIOLATED:
        return item
    excuse = rules.excuse(item.invariant)
    return replace(item, verdict=Verdict.ACCEPTED, reason=excuse) if excuse else item
