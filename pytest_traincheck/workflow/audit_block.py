"""An audit in this process: of the training inside a `with` block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_traincheck.check.audited import Audit, AuditFinding
from pytest_traincheck.check.result import RunError
from pytest_traincheck.config import load_nearest
from pytest_traincheck.observing import extensions
from pytest_traincheck.packs.model import Level
from pytest_traincheck.report.audit.terminal import render_audit
from pytest_traincheck.scratch import scratch_directory
from pytest_traincheck.workflow.audit import audit_trace
from pytest_traincheck.workflow.exceptions import today
from pytest_traincheck.workflow.packs import packs_for
from pytest_traincheck.workflow.silence import silenced

_NAME = "block"


@dataclass
class Found:
    """What an audit found; empty until the block has ended. As a text it is the report."""

    audit: Audit

    @property
    def errors(self) -> tuple[AuditFinding, ...]:
        """Laws that the training breaks."""
        return tuple(item for item in self.audit.findings if item.rule.level is Level.LAW)

    @property
    def warnings(self) -> tuple[AuditFinding, ...]:
        """Where it does otherwise than nearly all programs."""
        return tuple(item for item in self.audit.findings if item.rule.level is Level.HABIT)

    def __str__(self) -> str:
        return render_audit(self.audit, width=100).plain


@contextmanager
def audited(packs: Sequence[str] = (), *, name: str = _NAME, directory: Path | None = None) -> Iterator[Found]:
    """Observe the training in the block, and audit it when the block ends.

    `packs` are names or files; otherwise those are taken that ship, and those of the configuration at or above
    `directory` (the working directory unless given), whose exceptions count, too.
    Raises `PackError` and `ConfigError` before the block, and `TraceError` for a block that cannot be relied upon. An
    exception of the block goes on unchanged.
    """
    from pytest_traincheck.probe import observe
    from pytest_traincheck.trace import load_run
    from pytest_traincheck.trace.errors import TraceError

    here = directory or Path.cwd()
    config = load_nearest(here)
    chosen = packs_for(packs, config, here)
    found = Found(Audit(name))
    with scratch_directory("audit") as scratch:
        with observe(scratch / "run", extensions=extensions()):
            yield found
        try:
            run = load_run(scratch / "run")
        except TraceError as error:
            found.audit = replace(found.audit, errors=(RunError("", str(error)),))
            return
        audit = audit_trace(run, chosen, found.audit)
    root = config.root if config is not None else here
    allowed = config.audit.allow if config is not None else ()
    found.audit = silenced(audit, allowed, root=root, cwd=Path.cwd(), today=today())
