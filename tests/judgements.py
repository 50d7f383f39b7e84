"""Goldens and outcomes as the analysis tests ask about them: by sentence, relation and title."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_traincheck.check.evaluate import CheckOutcome
from pytest_traincheck.check.result import Incident, Violation
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.rules.model import Invariant


def sentences(golden: Golden, relation: str = "") -> list[str]:
    """The rules of a golden, as prose."""
    return [item.sentence for item in golden.invariants if relation in ("", item.relation)]


def rule(golden: Golden, sentence: str) -> Invariant:
    """The rule with this sentence; fails with the sentences that there are."""
    for invariant in golden.invariants:
        if invariant.sentence == sentence:
            return invariant
    raise AssertionError("no such rule: " + sentence + "\n" + "\n".join(sentences(golden)))


def violations(outcome: CheckOutcome, relation: str = "") -> list[Violation]:
    """All violations of a relation, in the order of the report."""
    return [
        violation
        for incident in outcome.incidents
        for violation in incident.violations
        if relation in ("", violation.invariant.relation)
    ]


def titles(outcome: CheckOutcome, relation: str) -> list[str]:
    """What is said about the broken rules of a relation."""
    return [violation.title for violation in violations(outcome, relation)]


def broken(outcome: CheckOutcome, sentence: str) -> Violation:
    """The violation of the rule with this sentence."""
    for violation in violations(outcome):
        if violation.invariant.sentence == sentence:
            return violation
    raise AssertionError("not violated: " + sentence + "\n" + "\n".join(describe(outcome.incidents)))


def describe(incidents: Sequence[Incident]) -> list[str]:
    """Incidents in a form that reads well when an assertion fails."""
    return [
        f"[{incident.number}] step {item.step} {item.invariant.relation}: {item.title}"
        for incident in incidents
        for item in incident.violations
    ]
