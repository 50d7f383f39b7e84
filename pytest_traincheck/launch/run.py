"""One run of a pipeline: a command, executed with the probe inside, and what became of it."""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from pytest_traincheck.frameworks.extensions import NONE, Extensions
from pytest_traincheck.launch import command as command_line
from pytest_traincheck.launch import diagnosis, output, run_directory
from pytest_traincheck.launch import limit as limits
from pytest_traincheck.launch.command import CommandError
from pytest_traincheck.launch.environment import Sampled, child_environment
from pytest_traincheck.launch.footprint import Footprint, difference, snapshot
from pytest_traincheck.launch.interpreter import require_python
from pytest_traincheck.launch.isolation import find_breach
from pytest_traincheck.launch.limit import Limit
from pytest_traincheck.launch.meta import hide
from pytest_traincheck.launch.process import Ended, run_tree
from pytest_traincheck.launch.run_directory import (
    FORMAT,
    PROGRAMS,
    RUN_FILE,
    STDERR_FILE,
    STDOUT_FILE,
    ForeignDirectoryError,
)
from pytest_traincheck.launch.untracked import CopyOf, find_missing
from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.redaction import redacted, redacted_words
from pytest_traincheck.scratch import ScratchError, scratch_directory


@dataclass(frozen=True)
class RunRequest:
    """What to run. `timeout` is in seconds; `seed_arg` holds `{seed}`; `extra_args` are added after it.

    `source_root` is the side's tree, put first on the import path; nothing may be imported from `forbidden_roots`.
    """

    command: str
    cwd: Path
    run_dir: Path
    seed: int | None = None
    seed_arg: str | None = None
    seed_env: str | None = None
    extra_args: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    python: str | None = None
    timeout: float = 300.0
    source_root: Path | None = None
    forbidden_roots: tuple[Path, ...] = ()
    side: str = "candidate"
    watched: tuple[Path, ...] = ()
    """Trees and files of the user's that the run may write to: what it does there is told."""
    ours: tuple[Path, ...] = ()
    """What lies in those trees and is written by us."""
    tree: CopyOf | None = None
    """Set where the run is in a worktree: which directory of the working tree that stands for."""
    mutant: str = ""
    """A kind of `pytest_traincheck.mutants` to plant, `census` to count where each could be planted."""
    mutant_files: tuple[Path, ...] = ()
    """Code of plug-ins that plants kinds of their own."""
    extensions: Extensions = NONE
    """What plug-ins want observed and looked through."""
    sampled: Sampled | None = None
    """Which steps are observed; None: every one."""
    limit: Limit | None = None
    """After how many steps or seconds the run is ended; None: it ends by itself."""
    seed_by: str | None = None
    """`probe`: the seed is what the generators of torch, numpy and Python begin with."""
    not_needed: Looks = NOTHING
    """What is not observed, since no rule that the run is checked by needs it."""


class RunStatus(str, Enum):
    """How a run ended."""

    OK = "ok"
    FAILED = "failed"
    KILLED = "killed"
    TIMEOUT = "timeout"
    NOT_STARTED = "not started"


@dataclass(frozen=True)
class RunOutcome:
    """What became of a run. `message` and `remedy` are empty when it is `OK`; `seconds` is wall time."""

    run_dir: Path
    status: RunStatus
    exit_code: int | None = None
    seconds: float = 0.0
    message: str = ""
    remedy: str = ""
    output: str = ""
    """Last lines of the user's own stdout and stderr, each under its name."""
    notes: tuple[str, ...] = ()
    written: tuple[Footprint, ...] = ()
    """What it did to the trees that are watched."""

    def remedy_without_output(self, instead: str = "") -> str:
        """What to do now where the directory of the run is removed; `instead` says how its output can be kept."""
        return self.remedy.replace(_kept_in(self.run_dir), f" {instead}" if instead else "")


@dataclass(frozen=True)
class Prepared:
    """A request after everything that can be wrong with it has been looked at."""

    argv: tuple[str, ...]
    shown: tuple[str, ...]
    """The words as they are stored: with `{tmp}` and not the directory, which is another one each time."""
    env: Mapping[str, str]
    interpreter: Path


def execute(request: RunRequest, progress: Callable[[float], None] | None = None) -> RunOutcome:
    """Run the command in a fresh run directory and say what became of it. Never raises for what the command does.

    What it does to the watched trees is told. A run that aborted while its process group was torn down is run once
    more; see `diagnosis.aborted_in_teardown`.
    """
    before = [snapshot(tree, request.ours) for tree in request.watched]
    outcome = _execute(request, progress)
    written = (difference(old, snapshot(old.root, request.ours)) for old in before)
    return replace(outcome, written=tuple(footprint for footprint in written if footprint))


def _execute(request: RunRequest, progress: Callable[[float], None] | None) -> RunOutcome:
    first, stderr = _attempt(request, progress)
    if first.status in (RunStatus.OK, RunStatus.TIMEOUT, RunStatus.NOT_STARTED):
        return first
    if not diagnosis.aborted_in_teardown(first.exit_code, stderr):
        return first
    second, _ = _attempt(request, progress)
    note = (
        f"the {request.side} run of `{redacted(request.command)}` aborted while its process group was torn down "
        f"(`{diagnosis.TEARDOWN_ABORT}`) and was run once more"
    )
    return replace(second, notes=(note, *second.notes))


def _attempt(request: RunRequest, progress: Callable[[float], None] | None) -> tuple[RunOutcome, str]:
    """One execution and the tail of its stderr."""
    try:
        with ExitStack() as stack:
            tmp = stack.enter_context(temporary(request))
            prepared = prepare(request, tmp)
            stdout = stack.enter_context((request.run_dir / STDOUT_FILE).open("w+b"))
            stderr = stack.enter_context((request.run_dir / STDERR_FILE).open("w+b"))
            write_run_file(request, prepared.shown, prepared.interpreter)
            if request.limit is not None:
                progress = limits.watched(request.limit, request.run_dir, progress)
            begun = time.monotonic()
            try:
                ended = run_tree(
                    prepared.argv,
                    cwd=request.cwd,
                    env=prepared.env,
                    stdout=stdout,
                    stderr=stderr,
                    timeout=request.timeout,
                    progress=progress,
                )
            except limits.Overdue:
                ended = Ended(None, time.monotonic() - begun, timed_out=True)
            except OSError as error:
                write_run_file(request, prepared.shown, prepared.interpreter, RunStatus.NOT_STARTED)
                raise cannot_start(prepared.argv[0], error) from error
            hide(request.run_dir, tmp)
            # Read through the open files: the run may have deleted the directory they are in.
            errors, printed = (_without(tmp, output.read_tail(stream)) for stream in (stderr, stdout))
        return judge_ended(request, prepared, ended, output.labelled(errors, printed), errors), errors
    except CommandError as error:
        return not_started(request, str(error), error.remedy), ""
    except (ForeignDirectoryError, ScratchError) as error:
        what, _, remedy = str(error).partition(". ")
        return not_started(request, what, remedy), ""
    except OSError as error:
        what = f"{request.run_dir} cannot be written: {error.strerror or error}"
        return not_started(request, what, "make room, or choose another directory for the runs"), ""


@contextmanager
def temporary(request: RunRequest) -> Iterator[Path | None]:
    """The directory that stands for `{tmp}`, where anything asks for it."""
    if not command_line.uses_tmp(request.command, request.seed_arg, request.extra_args, *request.env.values()):
        yield None
        return
    with scratch_directory("tmp") as holder:
        # Beside the lock, so that the run is given an empty directory.
        directory = holder / "tmp"
        directory.mkdir()
        yield directory


def _without(tmp: Path | None, text: str) -> str:
    """Output without a path that leads nowhere any more when it is read."""
    return text if tmp is None else text.replace(str(tmp), command_line.TMP)


def prepare(request: RunRequest, tmp: Path | None) -> Prepared:
    if not request.cwd.is_dir():
        raise CommandError(
            f"its working directory {request.cwd} does not exist", "check `cwd`, or restore the directory"
        )
    arguments = request.extra_args
    if request.seed is not None and request.seed_arg is not None:
        arguments = f"{request.seed_arg.replace('{seed}', str(request.seed))} {arguments}"
    command = command_line.parse_command(request.command, arguments, tmp)
    own = dict(request.env)
    if tmp is not None:
        own = {name: value.replace(command_line.TMP, str(tmp)) for name, value in own.items()}
    base = {**os.environ, **own, **command.assignments}
    interpreter = command_line.resolve_interpreter(request.python, base.get("PATH"))
    require_python(interpreter)
    shown = command_line.parse_command(request.command, arguments).argv
    run_directory.clear(request.run_dir)
    # First of all, since it is what makes the directory one of ours.
    write_run_file(request, shown, interpreter)
    run_dir = request.run_dir.resolve()
    env = child_environment(
        base,
        run_dir=run_dir,
        run_id=uuid.uuid4().hex,
        path_first=command_line.ensure_python_on_path(interpreter, run_dir / PROGRAMS),
        interpreter=interpreter,
        seed=request.seed,
        seed_env=request.seed_env,
        seed_by=request.seed_by,
        source_root=request.source_root.resolve() if request.source_root is not None else None,
        forbidden_roots=request.forbidden_roots,
        mutant=request.mutant,
        mutant_files=request.mutant_files,
        extensions=request.extensions,
        sampled=request.sampled,
        limit=request.limit,
        not_needed=request.not_needed,
    )
    program = command_line.resolve_program(command.argv[0], interpreter, request.cwd, env["PATH"])
    return Prepared((program, *command.argv[1:]), (program, *shown[1:]), env, interpreter)


def cannot_start(program: str, error: OSError) -> CommandError:
    return CommandError(
        f"`{program}` cannot be executed: {error.strerror or error}",
        "a script needs a first line such as `#!/bin/sh` that names a program which exists; or write `sh SCRIPT`",
    )


def _kept_in(run_dir: Path) -> str:
    return f" The whole output is in {run_dir}."


def not_started(request: RunRequest, why: str, remedy: str) -> RunOutcome:
    message = f"the {request.side} run of `{redacted(request.command)}` could not be started: {why}"
    return RunOutcome(request.run_dir, RunStatus.NOT_STARTED, message=message, remedy=_sentence(remedy))


def judge_ended(
    request: RunRequest, prepared: Prepared, ended: Ended, shown: str = "", stderr: str | None = None
) -> RunOutcome:
    """What became of a run that was started; `stderr` is None where its output was not ours to keep."""
    status = _status(ended)
    subject = f"the {request.side} run of `{redacted(request.command)}`"
    if request.seed is not None:
        subject += f" (seed {request.seed})"
    message, remedy, notes = "", "", []
    judged = None
    if status is not RunStatus.OK and request.limit is not None:
        judged = limits.judge(request.limit, request.run_dir, timed_out=ended.timed_out)
    if judged is not None and judged.counts:
        status = RunStatus.OK
        notes += [f"{subject} {judged.note}"] if judged.note else []
    if status is not RunStatus.OK:
        what, cure = (judged.what, judged.cure) if judged else _reason(request, prepared, ended, stderr or "")
        message = f"{subject} {what}"
        remedy = _sentence(cure)
        if stderr is not None:
            remedy += _kept_in(request.run_dir)
    else:
        breach = find_breach(request.run_dir, request.source_root, request.forbidden_roots)
        if breach is not None:
            status, message, remedy = RunStatus.FAILED, breach.message(request.side, request.source_root), breach.remedy
    if not request.run_dir.is_dir() and status is RunStatus.OK:
        status = RunStatus.FAILED
        message = f"{subject} deleted {request.run_dir}, where its trace was"
        remedy = "Keep the directory of the runs outside of what the pipeline cleans up."
    notes += [f"{subject} left a process behind, which was ended: `{name}`" for name in ended.left_over]
    try:
        if request.run_dir.is_dir():
            write_run_file(request, prepared.shown, prepared.interpreter, status, ended)
    except OSError as error:
        status = RunStatus.FAILED
        message = (
            message or f"{subject} ended well, but {request.run_dir / RUN_FILE} cannot be written: {error.strerror}"
        )
        remedy = remedy or "Make room on that disk, and keep the pipeline from writing there."
    return RunOutcome(request.run_dir, status, ended.exit_code, ended.seconds, message, remedy, shown, tuple(notes))


def _reason(request: RunRequest, prepared: Prepared, ended: Ended, stderr: str) -> tuple[str, str]:
    """What happened to a run that did not end well, and what to do now."""
    what, cure = diagnosis.explain(ended, stderr, request.timeout)
    if ended.timed_out or ended.too_much_output:
        return what, cure
    missing = find_missing(stderr, request.cwd, request.tree) if request.tree is not None else None
    if missing is not None:
        return diagnosis.not_in_worktree(what, missing.path, missing.link)
    module = diagnosis.missing_module(stderr)
    if module and not any((root / module).exists() or (root / f"{module}.py").exists() for root in _own_roots(request)):
        return diagnosis.not_installed(what, module, prepared.interpreter)
    return what, cure


def _own_roots(request: RunRequest) -> tuple[Path, ...]:
    root = request.source_root
    return (request.cwd, *((root, root / "src") if root is not None else ()))


def _status(ended: Ended) -> RunStatus:
    if ended.timed_out:
        return RunStatus.TIMEOUT
    if ended.too_much_output:
        return RunStatus.KILLED
    if diagnosis.killing_signal(ended.exit_code) is not None:
        return RunStatus.KILLED
    return RunStatus.OK if ended.exit_code == 0 else RunStatus.FAILED


def write_run_file(
    request: RunRequest,
    argv: tuple[str, ...],
    interpreter: Path,
    status: RunStatus | None = None,
    ended: Ended | None = None,
) -> None:
    content: dict[str, Any] = {
        "format": FORMAT,
        "side": request.side,
        "command": redacted(request.command),
        "argv": redacted_words(argv),
        "cwd": str(request.cwd),
        "seed": request.seed,
        "python": str(interpreter),
        "timeout": request.timeout if math.isfinite(request.timeout) else None,
        "status": status.value if status is not None else "running",
        "exit_code": ended.exit_code if ended is not None else None,
        "seconds": round(ended.seconds, 4) if ended is not None else None,
    }
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    handle, temporary = tempfile.mkstemp(dir=request.run_dir, prefix=f".{RUN_FILE}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
        Path(temporary).replace(request.run_dir / RUN_FILE)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."
