"""`traincheck run`: a training that is watched while it goes on."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from pytest_traincheck.check.result import CheckResult, Incident, RunError, SideInfo
from pytest_traincheck.config import Config, PipelineSpec
from pytest_traincheck.launch.environment import Sampled
from pytest_traincheck.launch.git import describe_head
from pytest_traincheck.launch.run import RunOutcome, RunRequest, RunStatus
from pytest_traincheck.launch.run_directory import END_STATE_FILE
from pytest_traincheck.launch.training import Training, train
from pytest_traincheck.observing import extensions
from pytest_traincheck.redaction import redacted
from pytest_traincheck.scratch import scratch_directory
from pytest_traincheck.workflow import states
from pytest_traincheck.workflow.against import Against
from pytest_traincheck.workflow.check_mode import left_out
from pytest_traincheck.workflow.watching import Watch

HEAD = 8
"""First steps that are observed whatever is left out, for a golden that does not say how long its runs were."""
GRACE_S = 60.0
"""Seconds that a training which was asked to stop has for saving what it needs."""


class Reaction(Enum):
    """What happens when a training breaks a rule."""

    WARN = "warn"
    STOP = "stop"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class TrainRequest:
    """What to run, beside what it is held against.

    With `CHECKPOINT` the file `touches` is touched at the first incident, and `calls` is run by a shell, with the title
    of the incident in `TRAINCHECK_INCIDENT`.
    """

    words: tuple[str, ...]
    cwd: Path
    against: Against
    seed: int | None = None
    seed_arg: str | None = None
    seed_env: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    python: str | None = None
    reaction: Reaction = Reaction.WARN
    touches: Path | None = None
    calls: str = ""
    every: int | None = 1
    """One step in so many is observed, behind the first ones; None: as many as `share` allows."""
    share: float = 0.05
    """Part of the training's time that observing may take then."""
    keep: Path | None = None
    """Where the trace is kept; it is removed otherwise."""
    continues: Path | None = None
    """The trace, or the end state, of the training that this one goes on with."""
    keep_bytes: int | None = None
    """How much of each trace is kept behind its first steps; None: all."""

    def as_configured(self, config: Config, spec: PipelineSpec) -> TrainRequest:
        """The same where the command is that of a pipeline: in its directory, with its first seed and interpreter."""
        return replace(
            self,
            cwd=config.root / spec.cwd,
            seed=spec.seeds[0],
            seed_arg=spec.seed_arg,
            seed_env=spec.seed_env,
            python=config.candidate_python or config.python,
        )


@dataclass(frozen=True)
class Trained:
    """What became of a training. `signalled`: the signal that we were sent while it went on."""

    result: CheckResult
    signalled: signal.Signals | None = None


def run_watched(
    request: TrainRequest, tell: Callable[[Incident, int], None], looked: Callable[[int], None] | None = None
) -> Trained:
    """Run a training and watch it; `tell` is called for each incident as soon as it is known, `looked` with the number
    of steps that were looked at.

    Raises `GoldenError` where the numbers of the golden cannot be read.
    """
    with ExitStack() as stack:
        run_dir = request.keep or stack.enter_context(scratch_directory("watched")) / "run"
        training = Training()
        guard = _Guard(request, training, tell)
        states.tidy(request.against)
        leaves = [states.place(request.against), *([run_dir / END_STATE_FILE] if request.keep else [])]
        watch = Watch(run_dir, request.against, guard.incident, request.keep_bytes, request.continues, leaves=leaves)
        stack.callback(watch.close)  # before the directory that it reads is removed
        if looked is not None:
            watch.looked = looked
        outcome = _ended_by_us(guard, _train(request, run_dir, training, guard, watch))
        candidate = SideInfo(describe_head(request.cwd), path=str(request.cwd), command=shlex.join(request.words))
        errors = [] if outcome.status is RunStatus.OK else [RunError("candidate", outcome.message, outcome.remedy)]
        result = watch.result(candidate, seconds=outcome.seconds, errors=errors)
        return Trained(_with_notes(result, outcome, guard), training.signalled)


def _train(request: TrainRequest, run_dir: Path, training: Training, guard: _Guard, watch: Watch) -> RunOutcome:
    def progress(_seconds: float) -> None:
        watch.look()
        guard.check()

    asked = RunRequest(
        command=shlex.join(request.words),
        cwd=request.cwd,
        run_dir=run_dir,
        seed=request.seed,
        seed_arg=request.seed_arg,
        seed_env=request.seed_env,
        env=request.env,
        python=request.python,
        timeout=float("inf"),
        extensions=extensions(),
        sampled=_sampled(request),
        not_needed=left_out(
            request.against.golden,
            request.against.path,
            same_spec=request.against.same_spec,
            kept=request.keep is not None,
        ),
    )
    begun = time.monotonic()
    try:
        return train(asked, training, progress)
    except _Overdue:
        what = f"`{redacted(asked.command)}` was asked to stop and did not within {GRACE_S:g} s, so it was ended"
        return RunOutcome(run_dir, RunStatus.KILLED, seconds=time.monotonic() - begun, message=what)


def _sampled(request: TrainRequest) -> Sampled | None:
    if request.every == 1:
        return None
    # Whether a training is longer than golden's shows with the step behind the first one that golden does not have.
    return Sampled(request.every, (request.against.golden.steps or HEAD) + 2, request.share)


def _ended_by_us(guard: _Guard, outcome: RunOutcome) -> RunOutcome:
    """A training that was told to stop ends as it likes."""
    return replace(outcome, status=RunStatus.OK) if guard.stopped and outcome.message else outcome


def _with_notes(result: CheckResult, outcome: RunOutcome, guard: _Guard) -> CheckResult:
    notes = [*outcome.notes]
    if guard.stopped:
        notes.append(
            "the training was stopped at the first incident" + (f": {outcome.message}" if outcome.message else "")
        )
    notes += guard.notes
    errors = result.errors
    if result.incidents and errors:
        # What broke first says more than how it ended; both are told.
        notes += [f"{error.message}. {error.remedy}".strip() for error in errors]
        errors = ()
    return replace(result, notes=(*result.notes, *notes), errors=errors)


class _Overdue(Exception):
    """A training that was asked to stop goes on."""


class _Guard:
    """Does what is to be done at the first incident."""

    def __init__(self, request: TrainRequest, training: Training, tell: Callable[[Incident, int], None]) -> None:
        self.stopped = False
        self.notes: list[str] = []
        self._request = request
        self._training = training
        self._tell = tell
        self._met = False
        self._deadline = float("inf")

    def incident(self, incident: Incident, steps: int) -> None:
        """An incident was found."""
        self._tell(incident, steps)
        if self._met:
            return
        self._met = True
        if self._request.reaction is Reaction.STOP:
            self.stopped = True
            self._deadline = time.monotonic() + GRACE_S
            self._training.send(signal.SIGTERM)
        elif self._request.reaction is Reaction.CHECKPOINT:
            self._checkpoint(incident)

    def check(self) -> None:
        """Raises `_Overdue` where the training has had its time to stop."""
        if time.monotonic() > self._deadline:
            raise _Overdue

    def _checkpoint(self, incident: Incident) -> None:
        request = self._request
        try:
            if request.touches is not None:
                request.touches.touch()
            if request.calls:
                title = {"TRAINCHECK_INCIDENT": incident.cause.title, "TRAINCHECK_STEP": str(incident.cause.step)}
                # To stderr: what the training prints must stay as it is.
                done = subprocess.run(
                    ["/bin/sh", "-c", request.calls],
                    cwd=request.cwd,
                    env={**os.environ, **title},
                    stdout=2,
                    check=False,
                )
                if done.returncode:
                    self.notes.append(f"`{request.calls}` ended with exit status {done.returncode}")
        except OSError as error:
            self.notes.append(f"the checkpoint could not be asked for: {error.filename}: {error.strerror or error}")
