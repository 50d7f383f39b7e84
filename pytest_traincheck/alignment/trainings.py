"""Which processes of a run are parts of one training, and a run in which each training is one process a rank.

`sh -c "train.py --steps 4 && train.py --resume --steps 8"` trains once, in two processes. What golden's runs were says
so, and a candidate is taken for the same: one that has lost everything on the way could not be known otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_traincheck.alignment.succession import first_known, with_models_succeeding, with_optimizers_succeeding
from pytest_traincheck.trace.as_one import as_one, follows, goes_on
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.run import Run

Launch = tuple[Process, ...]
"""The processes that train together, by rank."""


def trainings(run: Run) -> tuple[int, ...]:
    """For each launch of a run, in order, the number of the training that it is a part of; empty where each is one of
    its own.

    A launch goes on with an earlier one if all its ranks do, each with what the same rank has left.
    """
    launches = _launches(run)
    found: list[int] = []
    for launch in launches:
        # The latest part of a training is what one goes on with.
        last = {training: place for place, training in enumerate(found)}
        before = (each for each in sorted(last, key=lambda each: -last[each]) if _go_on(launches[last[each]], launch))
        found.append(next(before, max(found, default=-1) + 1))
    return tuple(found) if len(set(found)) < len(found) else ()


def as_trainings(run: Run, parts: Sequence[int]) -> Run:
    """The same run with one process a rank for every training; `parts` are those of golden's runs.

    A run with another number of launches is of another form, and is left as it is, and so is one whose launches did
    not follow each other.
    """
    launches = _launches(run) if parts else ()
    if not parts or len(launches) != len(parts):
        return run
    joined: dict[int, Launch] = {}
    for training, launch in zip(parts, launches, strict=True):
        before = joined.get(training)
        if before is None:
            joined[training] = launch
        elif not all(follows(one.raw, other.raw) for one, other in zip(before, launch, strict=True)):
            return run
        else:
            pairs = zip(before, launch, strict=True)
            joined[training] = tuple(Process(as_one(one.raw, other.raw)) for one, other in pairs)
    # Sorted by rank and then by start, as they were.
    ranks = zip(*joined.values(), strict=True)
    return Run(run.path, tuple(process for rank in ranks for process in rank), run.workers, run.others)


def succeeded(run: Run) -> Run:
    """A run in which what goes on has the names of what it goes on with, as in a golden that knows no later ones."""
    if not any(process.raw.joins for process in run.processes):
        return run
    known = [first_known(process) for process in run.processes]
    return with_optimizers_succeeding(with_models_succeeding(run, known), known)


def _launches(run: Run) -> tuple[Launch, ...]:
    """The launches of a run in the order of their starts; none where ranks have different numbers of them: another
    world size goes on, and nobody knows with what.
    """
    ranks: dict[int, list[Process]] = {}
    for process in run.processes:
        ranks.setdefault(process.rank, []).append(process)
    if len({len(each) for each in ranks.values()}) != 1:
        return ()
    found = tuple(zip(*ranks.values(), strict=True))
    return found if all(len({each.world_size for each in launch}) == 1 for launch in found) else ()


def _go_on(first: Launch, second: Launch) -> bool:
    if first[0].world_size != second[0].world_size:
        return False
    return all(goes_on(one.raw, other.raw) for one, other in zip(first, second, strict=True))
