"""The JSON contract of an audit: that of a check, with `level` and `law` in each incident, and what became of laws."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_traincheck.check.audited import Audit, AuditFinding, LawVerdict
from pytest_traincheck.check.result import CheckResult, InvariantVerdict, Timing, incident_json
from pytest_traincheck.report.audit.wording import silencing
from pytest_traincheck.report.files import json_text, write_report


def document(audit: Audit) -> dict[str, Any]:
    """The JSON object of an audit."""
    result = CheckResult(
        audit.name,
        verdicts=tuple(InvariantVerdict(item.rule.invariant, item.verdict, item.reason) for item in audit.verdicts),
        errors=audit.errors,
        candidate=audit.candidate,
        timing=Timing(candidate_run_s=audit.run_s, check_s=audit.check_s),
        notes=audit.notes,
        warnings=audit.warnings,
    )
    return {
        **result.to_json(),
        "verdict": audit.outcome.value,
        "incidents": [_incident(finding) for finding in audit.findings],
        "laws": audit.laws(),
        "rules": [_rule(item) for item in audit.verdicts],
        "packs": [
            {"name": pack.name, "library": pack.library, "rules": pack.rules, "reason": pack.reason}
            for pack in audit.packs
        ],
        "libraries": dict(audit.libraries),
        "steps": audit.steps,
        "strict": audit.strict,
        "silenced": [
            {**_incident(item.finding), "reason": item.reason, "owner": item.owner} for item in audit.silenced
        ],
    }


def write_json(path: Path, audits: Sequence[Audit]) -> None:
    """Write the document of one audit in one step. Raises `ReportError` when `path` cannot be written."""
    write_report(path, json_text(document(audits[0])), "JSON report")


def _incident(finding: AuditFinding) -> dict[str, Any]:
    rule = finding.rule
    return {
        **incident_json(finding.incident),
        "level": finding.level,
        "law": rule.id,
        "laws": list(finding.names),
        "why": rule.why,
        "link": rule.link,
        "remedy": rule.remedy,
        "meant": rule.meant,
        "silence": silencing(finding),
        "evidence": _evidence(finding),
    }


def _evidence(finding: AuditFinding) -> dict[str, Any]:
    evidence = finding.rule.evidence
    return {
        "programs": len(evidence.shows),
        "broken_by": len(evidence.breaks),
        "examples": evidence.examples,
        "tried": evidence.tried,
        "failed": evidence.failed,
        "at_most": evidence.at_most,
    }


def _rule(item: LawVerdict) -> dict[str, Any]:
    return {
        "law": item.rule.id,
        "pack": item.pack,
        "level": item.rule.level.report,
        "verdict": item.verdict.value,
        "reason": item.reason,
        "sentence": item.rule.invariant.sentence,
    }
