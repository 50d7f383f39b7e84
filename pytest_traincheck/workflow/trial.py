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
from pytest_traincheck.launch.sides import CheckedOutSide, separation
from pytest_traincheck.launch.untracked import find_missing
from pytest_traincheck.observing import extensions
from pytest_traincheck.redaction import redacted
from pytest_traincheck.scratch import scratch_directory
from pytest_traincheck.scripts.proposal import STEPS, Proposal, redirected
from pytest_traincheck.trace import load_run
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.workflow.starting import Place
from pytest_traincheck.workflow.trial_tree import Where, trial_tree

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
        """Paths that it created or changed in its tree, relative to that."""
        return tuple(path for one in self.written for path in (*one.created, *one.changed))

    @property
    def changed(self) -> tuple[str, ...]:
        """Those that were there before, and those that it deleted."""
        return tuple(path for one in self.written for path in (*one.changed, *one.deleted))


@dataclass(frozen=True)
class Tried:
    """What is left when trying is over: the pipeline as it works now, and how and where the last try of it went."""

    proposal: Proposal
    trial: Trial
    where: Where = Where.PLACE
    tries: int = 1


def attempt(place: Place, proposal: Proposal, python: str | None, where: Where, progress: Progress) -> Tried:
    """Try a pipeline, mend what a try shows how to mend, and try again, a few times at most.

    Raises `SideError` when no worktree can be made.
    """
    tries = 0
    dropped: set[str] = set()
    while True:
        tries += 1
        trial, where = run_once(place, proposal, python, where, progress)
        better = mended(proposal, trial, frozenset(dropped))
        if tries >= _MOST_TRIES or (better is None and not trial.outside):
            return Tried(shortened(proposal, trial), trial, where, tries)
        if better is None:
            # What lies beside the tree is where the script looks for it only as long as the script lies where it does.
            where = Where.PLACE
        else:
            dropped |= {*proposal.link} - {*better.link}
            proposal = better


def mended(proposal: Proposal, trial: Trial, dropped: frozenset[str] = frozenset()) -> Proposal | None:
    """The pipeline without what went wrong in a try; None where nothing did, or nobody knows how to mend it.

    Untracked paths that it writes over are none of its data. Once `dropped` they do not come back.
    """
    if trial.error is not None:
        if trial.missing and trial.missing not in {*proposal.link, *dropped}:
            return replace(proposal, link=(*proposal.link, trial.missing))
        return None
    over = {name for name in proposal.link for path in trial.changed if path == name or path.startswith(f"{name}/")}
    read = tuple(name for name in proposal.link if name not in over)
    better = redirected(proposal, trial.created) if trial.created else None
    if not over:
        return better
    return replace(better or proposal, link=read)


def shortened(proposal: Proposal, trial: Trial) -> Proposal:
    """The pipeline with a limit of steps where its training did not end by itself."""
    return proposal if trial.ended or trial.error is not None else replace(proposal, steps=proposal.steps or STEPS)


def run_once(
    place: Place, proposal: Proposal, python: str | None, where: Where, progress: Progress
) -> tuple[Trial, Where]:
    """Run a pipeline with the probe, for a limited time. A run that fails is an error in the result."""
    with ExitStack() as stack:
        tree = stack.enter_context(trial_tree(place, proposal.link, where))
        run_dir = stack.enter_context(scratch_directory("init")) / "run"
        request = _request(proposal, tree.side, tree.here, run_dir, python)
        progress.start(f"trying: {redacted(proposal.run)}")
        try:
            outcome = execute(request, progress.update)
        finally:
            progress.finish("")
        progress.ran()
        return _judged(outcome, request), tree.where


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
        error = RunError("", outcome.message, outcome.remedy_without_output(), outcome.output)
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
