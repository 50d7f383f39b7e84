"""A proposed pipeline, tried once: what came of it, and what it takes for the next try."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_traincheck.check.result import RunError
from pytest_traincheck.launch.footprint import Footprint, together
from pytest_traincheck.launch.limit import Limit, reached
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.run import RunOutcome, RunRequest, RunStatus, execute
from pytest_traincheck.launch.sides import CheckedOutSide, open_side, resolve_side, separation
from pytest_traincheck.launch.untracked import find_missing
from pytest_traincheck.observing import extensions
from pytest_traincheck.redaction import redacted
from pytest_traincheck.scratch import scratch_directory
from pytest_traincheck.scripts.proposal import STEPS, Proposal, redirected
from pytest_traincheck.trace import load_run
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.workflow.starting import Place

MOST_STEPS = 32
"""A training that is longer gets a limit of its own."""
MOST_SECONDS = 60.0
_LEAVING_S = 120.0
_MOST_TRIES = 4


@dataclass(frozen=True)
class Trial:
    """One try. `ended` says whether the training came to its end by itself; `seconds` is wall time.

    `error` is set where there is nothing to go on with; `missing` then names a path that the working tree has and a
    worktree lacks. `written` is what it did to its tree.
    """

    seconds: float = 0.0
    steps: int = 0
    events: int = 0
    ranks: int = 0
    ended: bool = False
    written: tuple[Footprint, ...] = ()
    error: RunError | None = None
    missing: str = ""
    outside: str = ""
    """A path that it looked for in vain in a worktree, and that lies beside the working tree."""
    notes: tuple[str, ...] = ()

    @property
    def created(self) -> tuple[str, ...]:
        """Paths that it created in its tree, relative to that."""
        return tuple(path for one in self.written for path in (*one.created, *one.changed))


@dataclass(frozen=True)
class Tried:
    """What is left when trying is over: the pipeline as it works now, and how the last try of it went."""

    proposal: Proposal
    trial: Trial
    ref: str | None = None
    """The commit that it was tried at; None: the working tree."""
    tries: int = 1


def attempt(place: Place, proposal: Proposal, python: str | None, ref: str | None, progress: Progress) -> Tried:
    """Try a pipeline, mend what a try shows how to mend, and try again, a few times at most.

    `ref` is the commit that it is tried at, in a worktree, so that nothing of the user's is written to; None for the
    working tree itself. Raises `SideError` when no worktree can be made.
    """
    tries = 0
    while True:
        tries += 1
        trial = run_once(place, proposal, python, ref, progress)
        better = mended(proposal, trial)
        if tries >= _MOST_TRIES or (better is None and not trial.outside):
            return Tried(shortened(proposal, trial), trial, ref, tries)
        # What lies beside the tree is where the script looks for it only as long as the script lies where it does.
        proposal, ref = (proposal, None) if better is None else (better, ref)


def mended(proposal: Proposal, trial: Trial) -> Proposal | None:
    """The pipeline without what went wrong in a try; None where nothing did, or nobody knows how to mend it."""
    if trial.error is not None:
        if trial.missing and trial.missing not in proposal.link:
            return replace(proposal, link=(*proposal.link, trial.missing))
        return None
    return redirected(proposal, trial.created) if trial.created else None


def shortened(proposal: Proposal, trial: Trial) -> Proposal:
    """The pipeline with a limit of steps where its training did not end by itself."""
    return proposal if trial.ended or trial.error is not None else replace(proposal, steps=proposal.steps or STEPS)


def run_once(place: Place, proposal: Proposal, python: str | None, ref: str | None, progress: Progress) -> Trial:
    """Run a pipeline with the probe, for a limited time. A run that fails is an error in the result."""
    with ExitStack() as stack:
        here = stack.enter_context(open_side(resolve_side(str(place.root), place.root)))
        side = here if ref is None else stack.enter_context(open_side(resolve_side(ref, place.root), proposal.link))
        run_dir = stack.enter_context(scratch_directory("init")) / "run"
        request = _request(proposal, side, here, run_dir, python)
        progress.start(f"trying: {redacted(proposal.run)}")
        try:
            outcome = execute(request, progress.update)
        finally:
            progress.finish("")
        progress.ran()
        return _judged(outcome, request)


def _request(
    proposal: Proposal, side: CheckedOutSide, here: CheckedOutSide, run_dir: Path, python: str | None
) -> RunRequest:
    source_root, forbidden = separation(side, here)
    return RunRequest(
        command=proposal.run,
        cwd=side.path,
        run_dir=run_dir,
        seed=1,
        seed_arg=proposal.seed_arg,
        seed_by=proposal.seed_by,
        python=python,
        timeout=MOST_SECONDS + _LEAVING_S,
        side="tried",
        source_root=source_root,
        forbidden_roots=forbidden,
        limit=Limit(proposal.steps or MOST_STEPS, MOST_SECONDS),
        watched=(side.path,),
        tree=side.tree,
        extensions=extensions(),
    )


def _judged(outcome: RunOutcome, request: RunRequest) -> Trial:
    found = Trial(outcome.seconds, written=together(outcome.written), notes=outcome.notes)
    if outcome.status is not RunStatus.OK:
        missing = find_missing(outcome.output, request.cwd, request.tree) if request.tree is not None else None
        remedy = outcome.remedy.replace(f" The whole output is in {outcome.run_dir}.", "")
        error = RunError("", outcome.message, remedy, outcome.output)
        if missing is None:
            return replace(found, error=error)
        return replace(found, error=error, missing=missing.link, outside="" if missing.link else str(missing.path))
    try:
        run = load_run(request.run_dir)
    except TraceError as error:
        return replace(found, error=RunError("", str(error), "", outcome.output))
    steps, limit = run.steps, reached(request.run_dir)
    found = replace(found, steps=steps, events=run.events, ranks=len(run.processes), ended=_by_itself(limit.ended))
    if steps:
        return found
    what = f"`{redacted(request.command)}` ended, and no optimizer stepped in it"
    remedy = "Give it a command that trains for at least two steps: traincheck init -- COMMAND ..."
    return replace(found, error=RunError("", what, remedy, outcome.output))


def _by_itself(ended_at_limit: Sequence[int]) -> bool:
    return not ended_at_limit
