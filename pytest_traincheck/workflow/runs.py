"""Runs of one side: planned, executed, and read as traces."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_traincheck.check.result import RunError, SideInfo
from pytest_traincheck.disk import write_remedy
from pytest_traincheck.golden import store
from pytest_traincheck.input_error import InputError
from pytest_traincheck.launch.cache import cache_root
from pytest_traincheck.launch.footprint import Footprint
from pytest_traincheck.launch.git import place_in_repository
from pytest_traincheck.launch.limit import limited
from pytest_traincheck.launch.metadata import read_environment
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.run import RunOutcome, RunRequest, RunStatus
from pytest_traincheck.launch.run_directory import ForeignDirectoryError, require_usable
from pytest_traincheck.launch.untracked import CopyOf
from pytest_traincheck.launch.worktree import sweep_temporary
from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.observing import extensions
from pytest_traincheck.redaction import redacted
from pytest_traincheck.report.json_report import is_report
from pytest_traincheck.scratch import scratch_directory
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.workflow.engine import Engine
from pytest_traincheck.workflow.files_note import written_notes

if TYPE_CHECKING:
    from pytest_traincheck.trace import Run

GOLDEN = "golden"
CANDIDATE = "candidate"
GOLDEN_FILE = "golden.jsonl"
RESULT_FILE = "result.json"


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
    seed_by: str | None = None
    steps: int | None = None
    """After how many steps each run is ended; None: it ends by itself."""
    seconds: float | None = None
    """After how many seconds; None: not before `timeout`, which is a failure."""
    env: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 300.0
    source_root: Path | None = None
    forbidden_roots: tuple[Path, ...] = ()
    watched: tuple[Path, ...] = ()
    """What of the user's own the runs may write to: see `CheckedOutSide.watched`."""
    tree: CopyOf | None = None
    """Set where the side is a worktree."""
    alone: bool = False
    """Whether none of its runs may be beside another."""


@dataclass(frozen=True)
class Recorded:
    """One run that went through and whose trace can be relied upon. `seconds` is its wall time.

    `written` is what it did to files of the user's.
    """

    trace: Run
    run_dir: Path
    seed: int | None
    seconds: float
    notes: tuple[str, ...]
    written: tuple[Footprint, ...] = ()


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


class ArtifactsError(InputError, ValueError):
    """The directory for artifacts cannot be used: why, and what to do now."""


def kept_workspace(artifacts: Path, name: str) -> Workspace:
    """The directory `name` below that for artifacts. Raises `ArtifactsError` when nothing can be written there."""
    path = artifacts.absolute() / name
    _require_ours(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        remedy = write_remedy(error, path, "Give a directory that can be written.")
        raise ArtifactsError(f"No artifacts can be kept in {path}: {error.strerror or error}. {remedy}") from error
    return Workspace(path, kept=True)


def _require_ours(path: Path) -> None:
    """Refuse to write over a golden or a result that no check has left there."""
    for file, is_ours in ((path / GOLDEN_FILE, store.is_golden), (path / RESULT_FILE, is_report)):
        if file.exists() and not is_ours(file):
            raise ArtifactsError(
                f"No artifacts can be kept in {path}: its `{file.name}` was not written by a check, and would be "
                "overwritten. Give another directory."
            )


@contextmanager
def workspace(artifacts: Path | None, pipeline: str) -> Iterator[Workspace]:
    """The directory for the runs of one pipeline. What killed processes left behind is removed on this occasion.

    Raises `ArtifactsError` when it is to be kept, and `ScratchError` when it is not, and it cannot be made.
    """
    sweep_temporary()
    if artifacts is not None:
        yield kept_workspace(artifacts, pipeline)
        return
    with scratch_directory() as directory:
        yield Workspace(directory, kept=False)


def record(
    plan: SidePlan,
    space: Workspace,
    name: str,
    *,
    seed: int | None,
    extra_args: str = "",
    mutant: str = "",
    mutant_files: tuple[Path, ...] = (),
    engine: Engine,
    progress: Progress,
    attend: Callable[[], None] = lambda: None,
    not_needed: Looks = NOTHING,
) -> Recorded:
    """Execute one run and read its trace. Raises `RunFailed`, which names the side, when either fails.

    `attend` is called now and then while it goes on; what it raises ends the run, and is raised here. What is
    `not_needed` is not observed.
    Raises `ArtifactsError` where something else lies in the place of the run, and `PluginError` for observations or
    frameworks of plug-ins that cannot be used.
    """
    run_dir = space.path / name
    try:
        require_usable(run_dir)
    except ForeignDirectoryError as error:
        raise ArtifactsError(str(error)) from error
    request = RunRequest(
        command=plan.command,
        cwd=plan.cwd,
        run_dir=run_dir,
        seed=seed,
        seed_arg=plan.seed_arg,
        seed_env=plan.seed_env,
        seed_by=plan.seed_by,
        limit=limited(plan.steps, plan.seconds),
        extra_args=extra_args,
        env=plan.env,
        python=plan.python,
        timeout=plan.timeout,
        source_root=plan.source_root,
        forbidden_roots=plan.forbidden_roots,
        side=plan.side,
        watched=plan.watched,
        # Beside the runs of one pipeline lie those of others, that may be under way at the same time.
        ours=(space.path, *([space.path.parent] if space.kept else []), cache_root()),
        tree=plan.tree,
        mutant=mutant,
        mutant_files=mutant_files,
        extensions=extensions(),
        not_needed=not_needed,
    )
    label = " ".join(f"{_label(plan.side, seed)}: {redacted(plan.command)} {redacted(extra_args)}".split())

    def execute(request: RunRequest, look: Callable[[float], None]) -> RunOutcome:
        def attended(seconds: float) -> None:
            look(seconds)
            attend()

        progress.start(label)
        try:
            return engine.execute(request, attended)
        finally:
            progress.finish("")

    outcome = engine.overlap.run(execute, request, progress.update, alone=plan.alone)
    progress.ran()
    if outcome.status is not RunStatus.OK:
        remedy = outcome.remedy
        if not space.kept:
            # The directory is about to be removed, so the way to it must not be shown.
            remedy = outcome.remedy_without_output("`--artifacts DIR` keeps the whole output.")
        notes = (*outcome.notes, *written_notes(plan.side, outcome.written, plan.tree is not None))
        raise RunFailed(RunError(plan.side, outcome.message, remedy, outcome.output), notes)
    try:
        trace = engine.load_run(run_dir)
    except TraceError as error:
        message = f"{_label(plan.side, seed)}: {error}"
        notes = (*outcome.notes, *written_notes(plan.side, outcome.written, plan.tree is not None))
        raise RunFailed(RunError(plan.side, message, "", outcome.output), notes) from error
    return Recorded(trace, run_dir, seed, outcome.seconds, outcome.notes, outcome.written)


def notes_of(plan: SidePlan, runs: Sequence[Recorded]) -> tuple[str, ...]:
    """What there is to say about the runs of a side, beside what they recorded."""
    written = written_notes(plan.side, (one for run in runs for one in run.written), plan.tree is not None)
    return (*(note for run in runs for note in run.notes), *written, *_left_out(plan, runs))


def _left_out(plan: SidePlan, runs: Sequence[Recorded]) -> Iterator[str]:
    """What the probe could not look at in the runs of a side, once each: a rule about it says nothing."""
    left_out: list[Mapping[str, int]] = [run.trace.left_out for run in runs]
    for what in dict.fromkeys(what for found in left_out for what in found):
        most = max(found.get(what, 0) for found in left_out)
        yield f"{plan.side}: not looked at: {what}" + (f" ({most} times)" if most > 1 else "")


def side_info(plan: SidePlan, runs: Sequence[Recorded], path: Path) -> SideInfo:
    """Where the runs of a side came from."""
    environment = read_environment(runs[0].run_dir) if runs else {}
    directory = place_in_repository(plan.cwd)
    return SideInfo(plan.commit, len(runs), environment, str(path), plan.command, directory=directory)


def mean_seconds(runs: Sequence[Recorded]) -> float:
    return sum(run.seconds for run in runs) / len(runs) if runs else 0.0


def _label(side: str, seed: int | None) -> str:
    return side if seed is None else f"{side}, seed {seed}"
