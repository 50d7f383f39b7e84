"""A check result as plain data (dicts, lists, strings, numbers) and back, without loss; for crossing processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pytest_traincheck.check import audit_serialise as audits
from pytest_traincheck.check.plain import Table, incident_from_plain, incident_to_plain, invariants_from_plain
from pytest_traincheck.check.result import (
    CheckResult,
    Commands,
    Coverage,
    InvariantVerdict,
    LaterSteps,
    ModuleAgreement,
    Parted,
    RunError,
    SideInfo,
    Timing,
    Verdict,
    Warned,
)


def to_plain(result: CheckResult) -> dict[str, Any]:
    """`result` in JSON-able values. Invariants are written once and referred to by their place in a table."""
    table = Table()
    verdicts = [
        [table.place(item.invariant), item.verdict.value, item.reason, item.applicable] for item in result.verdicts
    ]
    incidents = [incident_to_plain(incident, table) for incident in result.incidents]
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
        "audit": None if result.audit is None else audits.audit_to_plain(result.audit),
        "invariants": table.to_plain(),
    }


def from_plain(data: Mapping[str, Any]) -> CheckResult:
    """The result that `to_plain` wrote. Raises `KeyError`, `TypeError` or `ValueError` for anything else."""
    invariants = invariants_from_plain(data["invariants"])
    return CheckResult(
        pipeline=data["pipeline"],
        verdicts=tuple(
            InvariantVerdict(invariants[place], Verdict(verdict), reason, applicable)
            for place, verdict, reason, applicable in data["verdicts"]
        ),
        incidents=tuple(incident_from_plain(item, invariants) for item in data["incidents"]),
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
        audit=None if data["audit"] is None else audits.audit_from_plain(data["audit"]),
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
