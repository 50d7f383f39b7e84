"""What `traincheck init` says: what it found, how a try went, and what is missing, in plain words."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from pytest_traincheck.launch.diagnosis import missing_module
from pytest_traincheck.scripts.model import Script
from pytest_traincheck.scripts.proposal import STEPS, Proposal, writes
from pytest_traincheck.selftest.result import Fate, SelftestResult
from pytest_traincheck.text import one_line, plural
from pytest_traincheck.workflow.doctor import Finding, Level
from pytest_traincheck.workflow.init_causes import cause
from pytest_traincheck.workflow.refresh import Relearned
from pytest_traincheck.workflow.refresh_text import refresh_text
from pytest_traincheck.workflow.starting import Place
from pytest_traincheck.workflow.trial import MOST_SECONDS, Trial, Tried

_FEW = 3
_OTHERS = 5
_PATHS = 6
_LAST_LINES = 12


class Said(Finding):
    """One thing that is said."""

    @classmethod
    def fine(cls, subject: str, said: str) -> Said:
        """Something that was done, or found as it should be."""
        return cls(subject, Level.FINE, said)

    @classmethod
    def note(cls, subject: str, said: str, remedy: str = "") -> Said:
        """Something that is good to know."""
        return cls(subject, Level.NOTE, said, remedy)

    @classmethod
    def wrong(cls, subject: str, said: str, remedy: str = "") -> Said:
        """Something that ends it."""
        return cls(subject, Level.WRONG, said, remedy)


def found_text(proposal: Proposal, found: Sequence[Script], files: int) -> Said:
    """What was found, and which of it was taken."""
    script = proposal.script
    if script is None:
        return Said.fine("command", f"{proposal.run}; its script was not found among the programs that train")
    how = f"{script.evidence.what} at {script.evidence.place}, {script.style.value}"
    others = [item.path for item in found if item.path != script.path]
    said = f"{script.path} ({how}) in {plural(files, 'Python file')}"
    if not others:
        return Said.fine("found", said)
    listed = ", ".join(others[:_OTHERS]) + (f" and {len(others) - _OTHERS} more" if len(others) > _OTHERS else "")
    return Said("found", Level.FINE, said, f"`traincheck init SCRIPT` takes another: {listed}")


def asked(proposal: Proposal) -> str:
    """What the script does not start without, and the command to complete."""
    names = ", ".join(f"`{option.spelled or option.name}`" for option in proposal.asked)
    it = "it has" if len(proposal.asked) == 1 else "they have"
    assert proposal.script is not None
    lacking = " ".join(option.with_value("...") for option in proposal.asked)
    return (
        f"{proposal.script.path} does not start without {names}, and {it} no value that could be guessed. "
        f"Give what is missing: traincheck init {proposal.script.path} -- {lacking}"
    )


def tried_said(tried: Tried) -> Iterator[Said]:
    """How the last try went."""
    trial, proposal = tried.trial, tried.proposal
    seed = f", the seed by `{proposal.seed_arg}`" if proposal.seed_arg else ""
    if trial.error is not None:
        said = f"{trial.error.message}\n{_last_lines(trial.error.output)}".rstrip()
        yield Said.wrong("tried", said, _remedy(trial, proposal))
        return
    ranks = f" on {plural(trial.ranks, 'rank')}" if trial.ranks > 1 else ""
    measured = f"{trial.seconds:.1f} s, {plural(trial.steps, 'training step')}{ranks}, {plural(trial.events, 'event')}"
    again = f", at the {_ordinal(tried.tries)} try" if tried.tries > 1 else ""
    yield Said.fine("tried", f"{proposal.run}{seed}: {measured}, {tried.where.value}{again}")


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")


def _remedy(trial: Trial, proposal: Proposal) -> str:
    assert trial.error is not None
    again = f"Then again, with the command as it works: traincheck init -- {proposal.run}"
    if proposal.script is not None:
        again = f"Then again, with the arguments that it lacks: traincheck init {proposal.script.path} -- ..."
    if missing_module(trial.error.output):
        again = "Then again."
    known = cause(trial.error.output, proposal) if not trial.missing else ""
    return " ".join(filter(None, (known or trial.error.remedy, again)))


def hints(place: Place, proposal: Proposal, trial: Trial | None) -> Iterator[Said]:
    """What the script lacks, and what stands in for it. Of a try that failed, nothing is known."""
    if trial is not None and trial.error is not None:
        return
    yield from _seed(proposal)
    if trial is not None:
        yield from _length(proposal, trial)
        yield from _written(place, proposal, trial)
    if proposal.link:
        listed = ", ".join(f"`{name}`" for name in proposal.link)
        yield Said.note(
            "data", f"git does not track {listed}; `link` lets worktrees see it",
            "CI needs it, too: let the job fetch it, or keep a small sample in git.",
        )  # fmt: skip
    if not place.tracked:
        yield Said.note(
            "git", f"{place.root} is in no repository with files in it",
            "`git init`, and commit: goldens are reviewed there, and other commits can be compared with.",
        )  # fmt: skip
    elif proposal.script is not None and not place.is_committed(proposal.script.sources):
        yield Said.note("git", "the working tree has changes that are not committed: the golden is learned from them")


def _seed(proposal: Proposal) -> Iterator[Said]:
    if proposal.seed_arg is not None:
        return
    yield Said.note("no seed", 'no option sets one; `seed_by = "probe"` seeds torch, numpy and random in its place')
    fixed = proposal.script.constant_seeds if proposal.script is not None else ()
    if fixed:
        yield Said.note(
            "seed", f"{fixed[0]} seeds with a constant: all golden runs are the same run, and bands stay narrow",
            "Take that seed from an option (`--seed`), and let `seed_arg` say it.",
        )  # fmt: skip


def _length(proposal: Proposal, trial: Trial) -> Iterator[Said]:
    if not trial.ended:
        why = f"`{proposal.length}` did not end it soon" if proposal.length else "no option ends it soon"
        yield Said.note(
            "no step limit", f"{why}; `steps = {proposal.steps or STEPS}` ends each run after so many steps. What "
            "follows them, such as an evaluation or saving at the end, is not reached",
        )  # fmt: skip
    if trial.steps < _FEW:
        yield Said.note(
            "few steps", f"{plural(trial.steps, 'training step')}: what happens once in a while is not seen twice",
            "Give it more: traincheck init -- COMMAND, with more steps or smaller batches.",
        )  # fmt: skip
    if trial.seconds > MOST_SECONDS:
        yield Said.note(
            "slow", f"{trial.seconds:.0f} s a run; a golden takes four of them, a check one",
            "A smaller model or less data, by an option of the script, is enough to see what it does.",
        )  # fmt: skip


def _written(place: Place, proposal: Proposal, trial: Trial) -> Iterator[Said]:
    created = trial.created
    if not created:
        return
    shown = ", ".join(f"`{path}`" for path in created[:_PATHS])
    more = f" and {len(created) - _PATHS} more" if len(created) > _PATHS else ""
    there = [path for path in created if os.path.lexists(place.root / path)]
    danger = f" Checks run in place: they write over `{there[0]}`, which is there already." if there else ""
    options = list(writes(proposal))
    remedy = (
        f"Where `{options[0]}` says where it writes, add that to `run`."
        if options
        else "Give the script an option for it, and write `{tmp}`, a fresh directory of each run, into `run`."
    )
    yield Said.note("outputs", f"it writes {shown}{more} into the tree.{danger}", remedy)


def overwritten(paths: Sequence[str]) -> Said:
    """Why no golden is learned in place."""
    return Said.wrong(
        "golden", f"not learned: runs would write over {', '.join(f'`{path}`' for path in paths[:_PATHS])}",
        "Commit what is there, so that it can be learned in a worktree; or let the script write somewhere else.",
    )  # fmt: skip


def golden_said(item: Relearned) -> Said:
    """What was learned, or why nothing was."""
    if item.result.errors:
        error = item.result.errors[0]
        return Said.wrong("golden", f"{error.message}\n{_last_lines(error.output)}".rstrip(), error.remedy)
    return Said.fine("golden", refresh_text(item, written=True))


def _last_lines(output: str) -> str:
    """What a run said last, without the empty lines."""
    return "\n".join([line for line in output.splitlines() if line.strip()][-_LAST_LINES:])


def mistake_said(found: SelftestResult) -> Said:
    """Whether a mistake that was planted was caught, and as what."""
    mutant = next(iter(found.mutants), None)
    if mutant is None:
        broken = next(iter(found.unchanged.errors), None)
        last = f"\n{_last_lines(broken.output)}" if broken is not None else ""
        why = f"{broken.message}{last}".rstrip() if broken is not None else "the run without one breaks its golden"
        if not found.unchanged.errors and not found.unchanged.incidents:
            why = "there is no place for any in it"
        return Said.note("mistake", f"none was planted: {why}", f"See `traincheck check {found.pipeline}`.")
    planted = f"planted `{mutant.kind.name}` ({mutant.kind.mistake.rstrip('.')})"
    if mutant.fate is Fate.SURVIVED:
        return Said.note("mistake", f"{planted}: not noticed", f"`traincheck selftest {found.pipeline}` says more.")
    title = one_line(mutant.incident.cause.title) if mutant.incident is not None else mutant.detail
    rest = f"`traincheck selftest {found.pipeline}` plants all of them."
    return Said(
        "mistake", Level.FINE, f"{planted}: {'caught' if mutant.incident else mutant.fate.value}. {title}", rest
    )
