"""A check result as plain data (dicts, lists, strings, numbers) and back, without loss; for crossing processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pytest_traincheck.check.result import (
    ChangedLines,
    CheckResult,
    Commands,
    Coverage,
    Incident,
    InvariantVerdict,
    LaterSteps,
    ModuleAgreement,
    Parted,
    RunError,
    SideInfo,
    Timing,
    Verdict,
    Violation,
    Warned,
)
from pytest_traincheck.relations.meaning import Deviation
from pytest_traincheck.relations.stored import claim_of
from pytest_traincheck.rules.claims import to_json
from pytest_traincheck.rules.conditions import condition_from_json
from pytest_traincheck.rules.model import Invariant, Kind, Scope


def to_plain(result: CheckResult) -> dict[str, Any]:
    """`result` in JSON-able values. Invariants are written once and referred to by their place in a table."""
    table = _Table()
    verdicts = [
        [table.place(item.invariant), item.verdict.value, item.reason, item.applicable] for item in result.verdicts
    ]
    incidents = [
        {
            "id": incident.id,
            "rank": incident.number,
            "root": _violation_to_plain(incident.cause, table),
            "consequences": [_violation_to_plain(item, table) for item in incident.consequences],
            "diff": None if incident.diff is None else asdict(incident.diff),
        }
        for incident in result.incidents
    ]
    return {
        "pipeline": result.pipeline,
        "verdicts": verdicts,
        "incidents": incidents,
        "errors": [asdict(error) for error in result.errors],
        "golden": _side_to_plain(result.golden),
        "candidate": _side_to_plain(result.candidate),
        "timing": asdict(result.timing),
        "modules": [[item.path, item.status, repr(item.off), item.calls] for item in result.modules],
        "notes": list(result.notes),
        "renamed": [list(pair) for pair in result.renamed],
        "commands": None if result.commands is None else asdict(result.commands),
        "coverage": None if result.coverage is None else asdict(result.coverage),
        "warnings": [asdict(warning) for warning in result.warnings],
        "invariants": [_invariant_to_plain(invariant) for invariant in table.invariants],
    }


def from_plain(data: Mapping[str, Any]) -> CheckResult:
    """The result that `to_plain` wrote. Raises `KeyError`, `TypeError` or `ValueError` for anything else."""
    invariants = [_invariant_from_plain(item) for item in data["invariants"]]
    return CheckResult(
        pipeline=data["pipeline"],
        verdicts=tuple(
            InvariantVerdict(invariants[place], Verdict(verdict), reason, applicable)
            for place, verdict, reason, applicable in data["verdicts"]
        ),
        incidents=tuple(
            Incident(
                item["id"],
                item["rank"],
                _violation_from_plain(item["root"], invariants),
                tuple(_violation_from_plain(entry, invariants) for entry in item["consequences"]),
                None if item["diff"] is None else ChangedLines(**item["diff"]),
            )
            for item in data["incidents"]
        ),
        errors=tuple(RunError(**error) for error in data["errors"]),
        golden=SideInfo(**data["golden"]),
        candidate=SideInfo(**data["candidate"]),
        timing=Timing(**data["timing"]),
        modules=tuple(ModuleAgreement(path, status, float(off), calls) for path, status, off, calls in data["modules"]),
        notes=tuple(data["notes"]),
        renamed=tuple((candidate, golden) for candidate, golden in data["renamed"]),
        commands=None
        if data["commands"] is None
        else Commands(tuple(data["commands"]["reproduce"]), tuple(data["commands"]["accept"])),
        coverage=None if data["coverage"] is None else _coverage_from_plain(data["coverage"]),
        warnings=tuple(Warned(**warning) for warning in data["warnings"]),
    )


def _coverage_from_plain(data: Mapping[str, Any]) -> Coverage:
    parted, reasons = data["parted"], tuple((str(why), int(number)) for why, number in data["reasons"])
    return Coverage(
        **{
            **data,
            "parted": None if parted is None else Parted(**parted),
            "reasons": reasons,
            "later": LaterSteps(**data["later"]),
        }
    )


class _Table:
    """Numbers invariants in order of first use; equal ones share a number."""

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


def _side_to_plain(side: SideInfo) -> dict[str, Any]:
    return {
        "commit": side.commit,
        "runs": side.runs,
        "environment": dict(side.environment),
        "path": side.path,
        "command": side.command,
        "cached": side.cached,
        "directory": side.directory,
    }


def _violation_to_plain(violation: Violation, table: _Table) -> dict[str, Any]:
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
