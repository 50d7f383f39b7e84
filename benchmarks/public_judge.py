"""What an audit says about the trace of one public script."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from measure import REPOSITORY
from public_page import Judged, Told
from public_programs import Program

sys.path.insert(0, str(REPOSITORY))

from pytest_traincheck.check.audit import audit_run
from pytest_traincheck.check.result import Verdict
from pytest_traincheck.packs.model import Pack
from pytest_traincheck.trace import load_run
from pytest_traincheck.workflow.packs import packs_for


def shipped() -> tuple[Pack, ...]:
    """The packs that come with the package."""
    return packs_for((), None, REPOSITORY)


def judge(program: Program, trace: Path, seconds: float, packs: Sequence[Pack]) -> Judged:
    """The audit of a trace, against the packs; an audit that fails is a result of the page."""
    try:
        audit = audit_run(load_run(trace), packs, name=program.name)
    except Exception:  # noqa: BLE001  an auditor that fails on real code is a result of this page
        return Judged(program, seconds=seconds, problem=traceback.format_exc(limit=-3))
    found = tuple(
        Told(
            level=finding.level,
            rules=finding.names,
            sentence=" ".join(finding.incident.cause.title.split()),
            where=finding.incident.cause.source,
        )
        for finding in audit.findings
    )
    broken = {name for told in found for name in told.rules}
    held = {item.rule.id for item in audit.verdicts if item.verdict is Verdict.HELD} - broken
    return Judged(
        program,
        found,
        tuple(sorted(held)),
        known=audit.laws()["known"],
        steps=audit.steps,
        seconds=seconds,
    )
