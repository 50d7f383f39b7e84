"""Findings of an audit that somebody allowed, in the configuration, for a reason that a reviewer has read."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from pytest_traincheck.audit_config import Allow
from pytest_traincheck.check.audited import Audit, AuditFinding, Silenced
from pytest_traincheck.check.result import Verdict, Warned
from pytest_traincheck.toml_table import suggest

ENTRY = "[[tool.traincheck.audit.allow]]"
KIND = "allow"
"""The kind of a warning about an entry that does not do what it is there for."""


def silenced(audit: Audit, allowed: Sequence[Allow], *, root: Path, cwd: Path, today: datetime.date) -> Audit:
    """The audit without the findings that are allowed, and with a warning for each entry that is of no use any more.

    `root` is the directory of the configuration, `cwd` the one that lines of the run's code are relative to. A finding
    in which several rules are broken is silent once each of them is allowed.
    """
    in_force = [entry for entry in allowed if not entry.has_expired(today)]
    kept: list[AuditFinding] = []
    gone = list(audit.silenced)
    used: set[int] = set()
    for finding in audit.findings:
        path = _path(finding, root, cwd)
        by = [_allowing(name, path, in_force) for name in finding.names]
        used |= {id(entry) for entry in by if entry is not None}
        first = by[0]
        if first is None or None in by:
            kept.append(finding)
        else:
            gone.append(Silenced(finding, first.reason, first.owner))
    numbered = (
        replace(finding, incident=replace(finding.incident, number=number))
        for number, finding in enumerate(kept, start=1)
    )
    warnings = (*audit.warnings, *_needless(audit, allowed, used, today))
    return replace(audit, findings=tuple(numbered), silenced=tuple(gone), warnings=warnings)


def _allowing(law: str, path: str, allowed: Sequence[Allow]) -> Allow | None:
    return next((entry for entry in allowed if entry.law == law and _covers(entry, path)), None)


def _covers(entry: Allow, path: str) -> bool:
    return not entry.paths or any(fnmatchcase(path, pattern) for pattern in entry.paths)


def _path(finding: AuditFinding, root: Path, cwd: Path) -> str:
    """The file of a finding, from the directory of the configuration where it lies below that."""
    file = finding.incident.cause.source.rpartition(":")[0]
    if not file:
        return ""
    path = (cwd / file).resolve()
    top = root.resolve()
    return str(PurePosixPath(path.relative_to(top))) if path.is_relative_to(top) else str(PurePosixPath(path))


def _needless(audit: Audit, allowed: Sequence[Allow], used: set[int], today: datetime.date) -> list[Warned]:
    known = {item.rule.id for item in audit.verdicts}
    looked_at = {item.rule.id for item in audit.verdicts if item.verdict in (Verdict.HELD, Verdict.VIOLATED)}
    found = []
    for entry in allowed:
        name = f"{ENTRY} for `{entry.law}`"
        if entry.has_expired(today):
            what = f"{name} has expired on {entry.expires}: it silences nothing any more. Mend the code or renew it."
        elif entry.law not in known:
            what = f"{name} names no rule of these packs{suggest(entry.law, known)}. Correct the name, or delete it."
        elif id(entry) not in used and entry.law in looked_at:
            what = f"{name} matches nothing: the rule held, or was broken elsewhere. Delete it."
        else:
            continue
        found.append(Warned(KIND, what))
    return found
