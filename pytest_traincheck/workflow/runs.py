"""Runs of one side: planned, executed, and read as traces."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_traincheck.check.result import RunError, SideInfo
from pytest_traincheck.disk import write_remedy
from pytest_traincheck.launch.metadata import read_environment
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.run import RunRequest, RunStatus
from pytest_traincheck.redaction import redacted
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.workflow.engine import Engine

if TYPE_CHECKING:
    from pytest_traincheck.trace import Run

GOLDEN = "golden"
CANDIDATE = "candidate"


@dataclass(frozen=True)
class SidePlan:
    """How every run of a side is started. `timeout` is in seconds."""

    side: str
    command: str
    cwd: Path
    commit: str = ""
    python: str | None = None
    seed_arg: str | None = None
    seed_env: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 300.0
    source_root: Path | None = None
    forbidden_roots: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Recorded:
    """One run that went through and whose trace can be relied upon. `seconds` is its wall time."""

    trace: Run
    run_dir: Path
    seed: int | None
    seconds: float
    notes: tuple[str, ...]


class RunFailed(Exception):
    """A run that gave no trace to rely upon; carries what a report says about it."""

    def __init__(self, error: RunError, notes: tuple[str, ...] = ()) -> None:
        super().__init__(error.message)
        self.error = error
        self.notes = notes


@dataclass(frozen=True)
class Workspace:
    """Where runs are kept: below the user's artifacts directory, or in one that is removed afterwards."""

    path: Path
    kept: bool


class ArtifactsError(ValueError):
    """The directory for artifacts cannot be used: why, and what to do now."""


def kept_workspace(artifacts: Path, name: str) -> Workspace:
    """The directory `name` below that for artifacts. Raises `ArtifactsError` when nothing can be written there."""
    path = artifacts.absolute() / name
    try:
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        remedy = write_remedy(error, path, "Give a directory that can be written.")
        raise ArtifactsError(f"No artifacts can be kept in {path}: {error.strerror or error}. {remedy}") from error
    return Workspace(path, kept=True)


@contextmanager
def workspace(artifacts: Path | None, pipeline: str) -> Iterator[Workspace]:
    """The directory for the runs of one pipeline. Raises `ArtifactsError` when it is to be kept and cannot be made."""
    if artifacts is not None:
        yield kept_workspace(artifacts, pipeline)
        return
    # A run that is still dying may write while it is removed; what is left then is the system's to clean.
    with tempfile.TemporaryDirectory(prefix="traincheck-", ignore_cleanup_errors=True) as name:
        yield Workspace(Path(name).resolve(), kept=False)


def record(
    plan: SidePlan,
    space: Workspace,
    name: str,
    *,
    seed: int | None,
    extra_args: str = "",
    mutant: str = "",
    engine: Engine,
    progress: Progress,
) -> Recorded:
    """Execute one run and read its trace. Raises `RunFailed`, which names the side, when either fails."""
    run_dir = space.path / name
    request = RunRequest(
        command=plan.command,
        cwd=plan.cwd,
        run_dir=run_dir,
        seed=seed,
        seed_arg=plan.seed_arg,
        seed_env=plan.seed_env,
        extra_args=extra_args,
        env=plan.env,
        python=plan.python,
        timeout=plan.timeout,
        source_root=plan.source_root,
        forbidden_roots=plan.forbidden_roots,
        side=plan.side,
        mutant=mutant,
    )
    progress.start(" ".join(f"{_label(plan.side, seed)}: {redacted(plan.command)} {redacted(extra_args)}".split()))
    try:
        outcome = engine.execute(request, progress.update)
    finally:
        progress.finish("")
    if outcome.status is not RunStatus.OK:
        remedy = outcome.remedy
        if not space.kept:
            # The directory is about to be removed, so the way to it must not be shown.
            remedy = remedy.replace(
                f"The whole output is in {outcome.run_dir}.", "`--artifacts DIR` keeps the whole output."
            )
        raise RunFailed(RunError(plan.side, outcome.message, remedy, outcome.output), outcome.notes)
    try:
        trace = engine.load_run(run_dir)
    except TraceError as error:
        message = f"{_label(plan.side, seed)}: {error}"
        raise RunFailed(RunError(plan.side, message, "", outcome.output), outcome.notes) from error
    return Recorded(trace, run_dir, seed, outcome.seconds, outcome.notes)


def side_info(plan: SidePlan, runs: Sequence[Recorded], path: Path) -> SideInfo:
    """Where the runs of a side came from."""
    environment = read_environment(runs[0].run_dir) if runs else {}
    return SideInfo(plan.commit, len(runs), environment, str(path), plan.command)


def mean_seconds(runs: Sequence[Recorded]) -> float:
    return sum(run.seconds for run in runs) / len(runs) if runs else 0.0


def _label(side: str, seed: int | None) -> str:
    return side if seed is None else f"{side}, seed {seed}"
