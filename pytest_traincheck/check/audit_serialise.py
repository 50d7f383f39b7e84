"""An audit as plain data and back, without loss; for crossing processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pytest_traincheck.check.audited import Audit, AuditFinding, LawVerdict, PackUse, Silenced
from pytest_traincheck.check.plain import Table, incident_from_plain, incident_to_plain, invariants_from_plain
from pytest_traincheck.check.result import RunError, SideInfo, Verdict, Warned
from pytest_traincheck.packs.model import Evidence, Level, PackRule
from pytest_traincheck.rules.model import Invariant

_TEXTS = ("id", "why", "link", "remedy", "meant", "since")


def audit_to_plain(audit: Audit) -> dict[str, Any]:
    """`audit` in JSON-able values."""
    table = Table()
    return {
        "name": audit.name,
        "packs": [asdict(pack) for pack in audit.packs],
        "verdicts": [
            [_rule_to_plain(item.rule, table), item.pack, item.verdict.value, item.reason] for item in audit.verdicts
        ],
        "findings": [_finding_to_plain(finding, table) for finding in audit.findings],
        "silenced": [[_finding_to_plain(item.finding, table), item.reason, item.owner] for item in audit.silenced],
        "libraries": dict(audit.libraries),
        "steps": audit.steps,
        "errors": [asdict(error) for error in audit.errors],
        "notes": list(audit.notes),
        "warnings": [asdict(warning) for warning in audit.warnings],
        "candidate": {**asdict(audit.candidate), "environment": dict(audit.candidate.environment)},
        "strict": audit.strict,
        "seconds": [audit.run_s, audit.check_s],
        "invariants": table.to_plain(),
    }


def audit_from_plain(data: Mapping[str, Any]) -> Audit:
    """The audit that `audit_to_plain` wrote. Raises `KeyError`, `TypeError` or `ValueError` for anything else."""
    known = invariants_from_plain(data["invariants"])
    return Audit(
        name=data["name"],
        packs=tuple(PackUse(**pack) for pack in data["packs"]),
        verdicts=tuple(
            LawVerdict(_rule_from_plain(rule, known), pack, Verdict(verdict), reason)
            for rule, pack, verdict, reason in data["verdicts"]
        ),
        findings=tuple(_finding_from_plain(item, known) for item in data["findings"]),
        silenced=tuple(
            Silenced(_finding_from_plain(item, known), reason, owner) for item, reason, owner in data["silenced"]
        ),
        libraries=data["libraries"],
        steps=data["steps"],
        errors=tuple(RunError(**error) for error in data["errors"]),
        notes=tuple(data["notes"]),
        warnings=tuple(Warned(**warning) for warning in data["warnings"]),
        candidate=SideInfo(**data["candidate"]),
        strict=data["strict"],
        run_s=data["seconds"][0],
        check_s=data["seconds"][1],
    )


def _finding_to_plain(finding: AuditFinding, table: Table) -> dict[str, Any]:
    return {
        "incident": incident_to_plain(finding.incident, table),
        "rule": _rule_to_plain(finding.rule, table),
        "others": [_rule_to_plain(rule, table) for rule in finding.others],
    }


def _finding_from_plain(data: Mapping[str, Any], known: list[Invariant]) -> AuditFinding:
    others = tuple(_rule_from_plain(rule, known) for rule in data["others"])
    return AuditFinding(incident_from_plain(data["incident"], known), _rule_from_plain(data["rule"], known), others)


def _rule_to_plain(rule: PackRule, table: Table) -> dict[str, Any]:
    texts = {name: getattr(rule, name) for name in _TEXTS}
    return {
        **texts,
        "level": rule.level.value,
        "invariant": table.place(rule.invariant),
        "evidence": asdict(rule.evidence),
    }


def _rule_from_plain(data: Mapping[str, Any], known: list[Invariant]) -> PackRule:
    evidence = data["evidence"]
    return PackRule(
        level=Level(data["level"]),
        invariant=known[data["invariant"]],
        evidence=Evidence(**{**evidence, "shows": tuple(evidence["shows"]), "breaks": tuple(evidence["breaks"])}),
        **{name: data[name] for name in _TEXTS},
    )
