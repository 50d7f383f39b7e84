"""Evaluates packs on a run that has no golden: which laws came up, which held, and what breaks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pytest_traincheck.check.audited import Audit, AuditFinding, LawVerdict, PackUse
from pytest_traincheck.check.explain import explain
from pytest_traincheck.check.places import in_order, spoken_of, violation_of
from pytest_traincheck.check.result import Incident, Verdict, Violation, incident_id
from pytest_traincheck.packs.model import Level, Pack, PackRule
from pytest_traincheck.packs.versions import libraries, reaches
from pytest_traincheck.relations import laws, relation_named
from pytest_traincheck.relations.claims import ClaimError
from pytest_traincheck.relations.meaning import Place
from pytest_traincheck.relations.stored import claim_of
from pytest_traincheck.rules.claims import to_json
from pytest_traincheck.trace import Run


@dataclass(frozen=True)
class _Judged:
    """The verdicts on the rules of all packs, and the first place of each broken one, with its rule."""

    verdicts: list[LawVerdict] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    rules: dict[int, PackRule] = field(default_factory=dict)
    """The rule of a violation, by the identity of its invariant."""


def audit_run(run: Run, packs: Sequence[Pack], *, name: str) -> Audit:
    """What a run does that contradicts the rules of packs. A pack for a library that it does not use says nothing."""
    used = libraries(run)
    judged = _Judged()
    claimed: set[str] = set()
    uses = []
    for pack in packs:
        reason = "" if pack.library in used else f"the run does not use {pack.library}"
        uses.append(PackUse(pack.name, pack.library, len(pack.rules), reason))
        for rule in pack.rules:
            if rule.invariant.id in claimed:
                continue
            claimed.add(rule.invariant.id)
            _judge(judged, pack, rule, run, reason or _too_old(pack, rule, used))
    return Audit(
        name=name,
        packs=tuple(uses),
        verdicts=tuple(judged.verdicts),
        findings=_findings(judged),
        libraries=dict(used),
        steps=run.steps,
    )


def _too_old(pack: Pack, rule: PackRule, used: Mapping[str, str]) -> str:
    version = used.get(pack.library, "")
    return "" if reaches(version, rule.since) else f"it holds from {pack.library} {rule.since} on; here is {version}"


def _judge(judged: _Judged, pack: Pack, rule: PackRule, run: Run, reason: str) -> None:
    def decide(verdict: Verdict, why: str = "") -> None:
        judged.verdicts.append(LawVerdict(rule, pack.name, verdict, why))

    if reason:
        decide(Verdict.NOT_TRIGGERED, reason)
        return
    relation = relation_named(rule.invariant.relation)
    if relation is None:
        decide(Verdict.NOT_OBSERVABLE, f"no relation named {rule.invariant.relation!r} is known to this version")
        return
    try:
        claim = claim_of(rule.invariant.relation, to_json(rule.invariant.claim))
    except ClaimError as error:
        decide(Verdict.NOT_OBSERVABLE, f"its claim is none of {rule.invariant.relation}: {error}")
        return
    invariant = replace(rule.invariant, claim=claim)
    examples = relation.examples(claim, run)
    triggered = spoken_of(invariant, examples, run)
    if not triggered.any():
        decide(Verdict.NOT_TRIGGERED, "nothing that it speaks of came up")
        return
    broken = np.flatnonzero(triggered & ~examples.holds)
    if not broken.size:
        decide(Verdict.HELD)
        return
    decide(Verdict.VIOLATED)
    violation = violation_of(relation, invariant, run, examples, in_order(examples, broken))
    if invariant.relation not in laws():
        violation = _without_golden(violation, rule, pack)
    judged.violations.append(violation)
    judged.rules[id(violation.invariant)] = rule


def _without_golden(violation: Violation, rule: PackRule, pack: Pack) -> Violation:
    """A finding of a relation that speaks of a golden run, where there is none."""
    shown, kept = len(rule.evidence.shows), len(rule.evidence.shows) - len(rule.evidence.breaks)
    return replace(
        violation,
        title=f"{kept} of the {shown} programs of the pack `{pack.name}` in which it comes up keep this rule, and this "
        f"run does not: {violation.invariant.sentence}",
    )


def _findings(judged: _Judged) -> tuple[AuditFinding, ...]:
    """One for each cause, what is wrong for sure before what is unusual."""
    found = []
    for incident in explain(judged.violations):
        rules = [judged.rules[id(violation.invariant)] for violation in incident.violations]
        first = next((place for place, rule in enumerate(rules) if rule.level is Level.LAW), 0)
        found.append(AuditFinding(_led_by(incident, first), rules[first], _others(rules, first)))
    found.sort(key=_weight)
    return tuple(
        replace(item, incident=replace(item.incident, number=number)) for number, item in enumerate(found, start=1)
    )


_OF_EACH_STEP = frozenset(
    {Place.HELD, Place.FORWARD, Place.LOSS, Place.BACKWARD, Place.ACCUMULATION, Place.EXCHANGE, Place.STEP,
     Place.DIVERGED, Place.ARRIVAL, Place.USE, Place.UPDATE, Place.AGREEMENT}
)  # fmt: skip
"""What each step consists of: where that is wrong, training goes somewhere else. The rest makes it weaker."""


def _weight(finding: AuditFinding) -> tuple[bool, bool, int]:
    """Laws first, then what makes training wrong altogether, then as causes and consequences are told."""
    cause = finding.incident.cause
    return finding.rule.level is not Level.LAW, cause.meaning.place not in _OF_EACH_STEP, finding.incident.number


def _others(rules: Sequence[PackRule], first: int) -> tuple[PackRule, ...]:
    return tuple(rule for place, rule in enumerate(rules) if place != first)


def _led_by(incident: Incident, first: int) -> Incident:
    """The same, told by one of its violations: a law that is broken is never told as the consequence of a habit."""
    if not first:
        return incident
    cause = incident.violations[first]
    rest = tuple(item for item in incident.violations if item is not cause)
    return Incident(incident_id(cause, rest), incident.number, cause, rest)
