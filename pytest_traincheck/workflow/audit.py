"""`traincheck audit`: a run without a golden, held against packs."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_traincheck.audit_config import DEFAULT_SECONDS, DEFAULT_STEPS, Allow
from pytest_traincheck.check.audit import audit_run
from pytest_traincheck.check.audited import Audit
from pytest_traincheck.check.result import RunError, SideInfo, Warned
from pytest_traincheck.config import Config
from pytest_traincheck.launch.git import describe_head
from pytest_traincheck.launch.limit import Limit
from pytest_traincheck.launch.metadata import read_environment
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.run import RunRequest, RunStatus, execute
from pytest_traincheck.observing import extensions
from pytest_traincheck.packs.model import Level, Pack
from pytest_traincheck.redaction import redacted
from pytest_traincheck.scratch import scratch_directory
from pytest_traincheck.trace import Run, load_run
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.workflow.exceptions import today
from pytest_traincheck.workflow.packs import AuditPlan
from pytest_traincheck.workflow.silence import silenced

GOLDEN = "golden"
"""The kind of a warning about the golden itself."""

LEAVING_S = 120.0
"""Seconds beyond its limit after which a run is ended that does not end itself."""


@dataclass(frozen=True)
class AuditRequest:
    """What to run, and what it is held against."""

    words: tuple[str, ...]
    cwd: Path
    packs: tuple[Pack, ...]
    config: Config | None = None
    steps: int = DEFAULT_STEPS
    seconds: float = DEFAULT_SECONDS
    """The run is ended after so many steps, or seconds, whichever come first."""
    strict: bool = False
    python: str | None = None
    keep: Path | None = None
    """Where the trace is kept; it is removed otherwise."""

    @property
    def allow(self) -> tuple[Allow, ...]:
        return self.config.audit.allow if self.config is not None else ()


def audit(request: AuditRequest, progress: Progress) -> Audit:
    """Run the command once with the probe and audit what it did. A run that fails is an error in the result."""
    command = shlex.join(request.words)
    empty = Audit(
        name=redacted(command),
        strict=request.strict,
        candidate=SideInfo(describe_head(request.cwd), runs=1, path=str(request.cwd), command=command),
    )
    with ExitStack() as stack:
        run_dir = request.keep or stack.enter_context(scratch_directory("audit")) / "run"
        asked = RunRequest(
            command=command,
            cwd=request.cwd,
            run_dir=run_dir,
            python=request.python,
            timeout=request.seconds + LEAVING_S,
            side="audited",
            limit=Limit(request.steps, request.seconds),
            extensions=extensions(),
        )
        progress.start(empty.name)
        try:
            outcome = execute(asked, progress.update)
        finally:
            progress.finish("")
        empty = replace(empty, run_s=outcome.seconds, notes=outcome.notes)
        if outcome.status is not RunStatus.OK:
            remedy = outcome.remedy
            if request.keep is None:
                remedy = outcome.remedy_without_output("`--keep-trace DIR` keeps the whole output.")
            return replace(empty, errors=(RunError("", outcome.message, remedy, outcome.output),))
        try:
            run = load_run(run_dir)
        except TraceError as error:
            return replace(empty, errors=(RunError("", str(error)),))
        found = audit_trace(run, request.packs, empty)
        environment = replace(empty.candidate, environment=read_environment(run_dir))
    root = request.config.root if request.config is not None else request.cwd
    return silenced(replace(found, candidate=environment), request.allow, root=root, cwd=request.cwd, today=today())


def audit_beside(name: str, run: Run, plan: AuditPlan, cwd: Path) -> Audit:
    """The audit of a run that is checked as well, in the directory `cwd`."""
    found = audit_trace(run, plan.packs, Audit(name=name))
    return silenced(found, plan.allow, root=plan.root, cwd=cwd, today=today())


def laws_broken(audit: Audit) -> tuple[Warned, ...]:
    """What a golden's own code does that no right program does: it is learned with the rest, and nobody would see."""
    return tuple(
        Warned(GOLDEN, f"the golden breaks the law `{finding.rule.id}`: {cause.title}", cause.source)
        for finding in audit.findings
        for cause in [finding.incident.cause]
        if finding.rule.level is Level.LAW
    )


def audit_trace(run: Run, packs: Sequence[Pack], empty: Audit) -> Audit:
    """The audit of a run that is there; `empty` says what else is known of it."""
    if not any(process.steps for process in run.processes):
        what = f"no optimizer stepped while `{empty.name}` ran, so no training was looked at"
        remedy = "Let it train for at least two steps of a `torch.optim.Optimizer`; give it more time with --seconds."
        return replace(empty, errors=(RunError("", what, remedy),))
    started = time.perf_counter()
    found = audit_run(run, packs, name=empty.name)
    return replace(
        empty,
        packs=found.packs,
        verdicts=found.verdicts,
        findings=found.findings,
        libraries=found.libraries,
        steps=found.steps,
        check_s=time.perf_counter() - started,
    )
