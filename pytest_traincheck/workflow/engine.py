"""The four operations that the workflow strings together, as one value, so that it can be tested without training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pytest_traincheck.golden.model import Golden
from pytest_traincheck.jobs import Jobs
from pytest_traincheck.workflow.overlap import Overlap

if TYPE_CHECKING:
    from pytest_traincheck.check.audited import Audit
    from pytest_traincheck.check.evaluate import CheckOutcome
    from pytest_traincheck.launch.run import RunOutcome, RunRequest
    from pytest_traincheck.trace import Run
    from pytest_traincheck.workflow.packs import AuditPlan

Execute = Callable[["RunRequest", Callable[[float], None]], "RunOutcome"]


class Learn(Protocol):
    """See `pytest_traincheck.infer.learn`."""

    def __call__(
        self,
        runs: Sequence[Run],
        *,
        pipeline: str,
        spec: str,
        commit: str,
        environment: Mapping[str, str],
        seeds: tuple[int, ...],
        reason: str,
        varied: Sequence[Run] = (),
        repeated: Sequence[Run] = (),
    ) -> Golden: ...


class CheckRun(Protocol):
    """See `pytest_traincheck.check.evaluate.check_run`."""

    def __call__(self, golden: Golden, run: Run, *, same_spec: bool) -> CheckOutcome: ...


class AuditBeside(Protocol):
    """See `pytest_traincheck.workflow.audit.audit_beside`."""

    def __call__(self, name: str, run: Run, plan: AuditPlan, cwd: Path) -> Audit: ...


@dataclass(frozen=True)
class Engine:
    """How runs are made, read, learned from and checked."""

    execute: Execute
    load_run: Callable[[Path], Run]
    learn: Learn
    check_run: CheckRun
    repeats: bool = False
    """Whether a golden run is made once more with its seed, to see what of it comes again."""
    overlap: Overlap = field(default_factory=Overlap)
    """How many runs there are at a time."""
    audit: AuditBeside | None = None
    """How runs are audited; None where they are not."""


def default_engine(jobs: Jobs = 1) -> Engine:
    """The real operations, with so many runs at a time.

    Imported here, since numpy is not needed to say that an option is wrong.
    """
    from pytest_traincheck.check.evaluate import check_run
    from pytest_traincheck.infer import learn
    from pytest_traincheck.launch.run import execute
    from pytest_traincheck.trace import load_run
    from pytest_traincheck.workflow.audit import audit_beside

    # What draws from a generator that nobody has seeded, or from a clock, shows only in a run that is made twice.
    return Engine(execute, load_run, learn, check_run, True, Overlap.of(jobs), audit_beside)
