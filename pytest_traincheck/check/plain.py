"""Incidents and rules as plain data and back, without loss: what results and audits have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pytest_traincheck.check.result import ChangedLines, Incident, Violation
from pytest_traincheck.relations.meaning import Deviation
from pytest_traincheck.relations.stored import claim_of
from pytest_traincheck.rules.claims import to_json
from pytest_traincheck.rules.conditions import condition_from_json
from pytest_traincheck.rules.model import Invariant, Kind, Scope


class Table:
    """Numbers invariants in order of first use; equal ones share a number. Every rule is written once in it."""

    def __init__(self) -> None:
        self.invariants: list[Invariant] = []
        # Support counts and wording do not enter the id, so the sentence stands beside it.
        self._places: dict[tuple[str, str, int, int], int] = {}

    def place(self, invariant: Invariant) -> int:
        key = (invariant.id, invariant.sentence, invariant.examples, invariant.runs)
        if key not in self._places:
            self._places[key] = len(self.invariants)
            self.invariants.append(invariant)
        return self._places[key]

    def to_plain(self) -> list[dict[str, Any]]:
        """For `invariants_from_plain`."""
        return [_invariant_to_plain(invariant) for invariant in self.invariants]


def invariants_from_plain(data: Sequence[Mapping[str, Any]]) -> list[Invariant]:
    """The invariants of a table, by their numbers."""
    return [_invariant_from_plain(item) for item in data]


def incident_to_plain(incident: Incident, table: Table) -> dict[str, Any]:
    """An incident whose invariants are in the table."""
    return {
        "id": incident.id,
        "rank": incident.number,
        "root": _violation_to_plain(incident.cause, table),
        "consequences": [_violation_to_plain(item, table) for item in incident.consequences],
        "diff": None if incident.diff is None else asdict(incident.diff),
    }


def incident_from_plain(data: Mapping[str, Any], invariants: Sequence[Invariant]) -> Incident:
    """The incident that `incident_to_plain` wrote."""
    return Incident(
        data["id"],
        data["rank"],
        _violation_from_plain(data["root"], invariants),
        tuple(_violation_from_plain(entry, invariants) for entry in data["consequences"]),
        None if data["diff"] is None else ChangedLines(**data["diff"]),
    )


def _violation_to_plain(violation: Violation, table: Table) -> dict[str, Any]:
    return {
        "invariant": table.place(violation.invariant),
        "title": violation.title,
        "golden": violation.golden,
        "candidate": violation.candidate,
        "step": violation.step,
        "stage": violation.stage,
        "ranks": list(violation.ranks),
        "seq": violation.seq,
        "module": violation.module,
        "variables": list(violation.variables),
        "source": violation.source,
        "count": violation.count,
        "place": violation.place,
        "value": violation.value,
        "deviation": violation.deviation.value,
        "common_cause": violation.common_cause,
        "modules": list(violation.modules),
        "changed": None if violation.changed is None else list(violation.changed),
    }


def _violation_from_plain(data: Mapping[str, Any], invariants: Sequence[Invariant]) -> Violation:
    return Violation(
        **{
            **data,
            "invariant": invariants[data["invariant"]],
            "ranks": tuple(data["ranks"]),
            "variables": tuple(data["variables"]),
            "modules": tuple(data["modules"]),
            "changed": None if data["changed"] is None else tuple(data["changed"]),
            "deviation": Deviation(data["deviation"]),
        }
    )


def _invariant_to_plain(invariant: Invariant) -> dict[str, Any]:
    return {
        "relation": invariant.relation,
        "subject": invariant.subject,
        "claim": to_json(invariant.claim),
        "when": [condition.to_json() for condition in invariant.when],
        "scope": invariant.scope.value,
        "kind": invariant.kind.value,
        "sentence": invariant.sentence,
        "examples": invariant.examples,
        "runs": invariant.runs,
    }


def _invariant_from_plain(data: Mapping[str, Any]) -> Invariant:
    return Invariant(
        **{
            **data,
            "claim": claim_of(data["relation"], data["claim"]),
            "when": tuple(condition_from_json(item) for item in data["when"]),
            "scope": Scope(data["scope"]),
            "kind": Kind(data["kind"]),
        }
    )
