"""The ranks of one launch, followed from their first step on in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pytest_traincheck.alignment.align import align
from pytest_traincheck.check.evaluate import CheckOutcome
from pytest_traincheck.check.part import Part
from pytest_traincheck.check.result import Incident
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.online.ending import Ending, Resume
from pytest_traincheck.online.findings import Findings, granted
from pytest_traincheck.online.rank import Rank
from pytest_traincheck.relations.distinct import batches_noted
from pytest_traincheck.relations.later_optimizers import TakenOver, taken_over
from pytest_traincheck.rules.model import Kind
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.run import Run
from pytest_traincheck.trace.side_by_side import beside_each_other

Check = Callable[[Run, Part], CheckOutcome]

STRETCH = 64
"""Steps that are judged together."""
ROWS = 200_000
"""Events of a process after which a stretch of fewer steps is closed."""

MANY = 16
"""Steps that come at once, from which on they are so short that the last of them are judged at the next look."""
FEWEST = 2
"""Steps that are needed to see what a step is made of: a schedule moves between two of them."""
PATIENCE = 4
"""Multiple of golden's steps after which nobody waits for golden's optimizer any more."""


@dataclass(frozen=True)
class _Steps:
    """The steps that all ranks have completed: where each ends, by rank, its number in the whole training, and by rank
    how many of its own it is the last of.
    """

    ends: tuple[np.ndarray, ...]
    numbers: np.ndarray
    own: tuple[np.ndarray, ...]
    first: tuple[int, ...]
    """By rank how many of its own are there, as long as none of them is gone."""
    closed: bool
    """Whether the one that follows the last was not observed, so that nothing more of the last is to come."""
    sampled: bool

    def behind(self, border: int, kept: int) -> _Steps:
        """The same where those from the number `kept` on, up to a border, are gone."""

        def rest(values: np.ndarray) -> np.ndarray:
            return np.concatenate([values[:kept], values[border:]])

        ends, own = tuple(map(rest, self.ends)), tuple(map(rest, self.own))
        return replace(self, ends=ends, numbers=rest(self.numbers), own=own)


class LaunchGroup:
    """Judges the steps of its ranks as they are completed, those of all ranks together."""

    def __init__(self, golden: Golden, check: Check, ranks: Sequence[Rank], *, head: int, other_length: bool) -> None:
        """`head`: so many first steps are compared with golden's own."""
        self.ranks: tuple[Rank, ...] = tuple(ranks)
        self.findings = Findings(golden)
        self.workers: tuple[Process, ...] = ()
        self.steps = 0
        """Steps that all ranks have completed, observed or not."""
        self.sampled = False
        """Whether not every step is observed."""
        self.observed = 0
        """Steps that were judged, with those of what it goes on with."""
        self.first: CheckOutcome | None = None
        """What the check of golden's steps found, when there are more."""
        self.resume: Resume | None = None
        """What it goes on with."""
        self.taken_over: TakenOver | None = None
        """Which optimizers take the steps that golden's runs never came to, where these are others."""
        self._golden = golden
        self._check = check
        self._head = self._kept = head
        self._part = Part(goes_on=True, other_length=other_length)
        self._number = 0
        self._finished = False
        self._seen: _Steps | None = None

    def go_on(self, resume: Resume) -> None:
        """Its ranks go on with an earlier training."""
        ending, steps = resume.ending, resume.steps
        self.resume, self.steps, self._number = resume, steps, 1
        self.observed = ending.observed
        self._kept = min(steps, *(left.head_steps for left in ending.ranks))
        for rank in self.ranks:
            self._count_on(rank)
        self._part = replace(self._part, other_length=ending.other_length, later=True, granted=ending.granted)
        self.findings.go_on(ending.broken, ending.episodes)

    def begin_midway(self) -> None:
        """Its ranks go on with a training that nobody observed."""
        self._part = replace(self._part, later=True, midway=True)

    @property
    def midway(self) -> bool:
        """Whether they do."""
        return self._part.midway

    def _note(self, steps: _Steps) -> None:
        """Remember what was saved in the steps that are there."""
        self._seen = steps
        for rank, ends in zip(self.ranks, steps.ends, strict=True):
            rank.note_saves(ends, steps.numbers)
        saved = {each.steps for rank in self.ranks for each in rank.saved if each.asked}
        for rank, ends in zip(self.ranks, steps.ends, strict=True):
            rank.note_beside(saved, ends, steps.numbers)

    def ending(self, path: Path, *, same_spec: bool) -> Ending | None:
        """What its ranks have left until now; None where they have made no step."""
        if (steps := self._steps(path)) is not None:
            self._note(steps)
        seen = self._seen
        if seen is None or len(seen.ends) != len(self.ranks):
            return None
        heads = [rank.kept if self._number else first for rank, first in zip(self.ranks, seen.first, strict=True)]
        each = zip(self.ranks, seen.ends, heads, strict=True)
        left = [rank.left(ends, seen.numbers, head) for rank, ends, head in each]
        part, findings = self._part, self.findings
        observed = self.observed if self._finished else self.observed + self._not_judged(seen)
        return Ending(
            tuple(left), same_spec, part.other_length, findings.broken, findings.episodes, part.granted, observed
        )

    @property
    def complete(self) -> bool:
        """Whether every rank that the launch has is known."""
        world = max(int(rank.source.meta.get("world_size") or 1) for rank in self.ranks)
        return len(self.ranks) >= world

    def join(self, rank: Rank) -> None:
        """Take another rank in, in the order of ranks."""
        self.ranks = tuple(sorted((*self.ranks, rank), key=lambda each: each.number))
        if self.resume is not None:
            self._count_on(rank)

    def _count_on(self, rank: Rank) -> None:
        """A rank goes on with an earlier training, whose steps count."""
        if self.resume is not None:
            rank.kept, rank.left_out = self._kept, self.resume.steps - self._kept

    def judge(self, path: Path, *, ended: bool) -> tuple[Incident, ...] | None:
        """Judge the steps that were completed since; None where there are none.

        What is found is to be told now. Incidents that were found before are among them.
        """
        found, judged, steps = None, self.steps, self._steps(path)
        while steps is not None:
            self._note(steps)
            settled = len(steps.numbers) - (0 if ended or steps.closed else 1)
            begun = self._kept if self._number else 0
            border = self._border(steps, settled, begun)
            if border:
                last = [int(end[border - 1]) for end in steps.ends]
                run = self._run(path, last)
                outcome = self._judged(run, int(steps.numbers[border - 1]) + 1, steps.sampled)
                self.findings.take(outcome, self._number)
                self._close(outcome, run, steps, border)
                self.observed += border - begun
                found = self.findings.incidents()
                came = np.count_nonzero(steps.numbers[:settled] >= judged)
                if not ended and came >= MANY and not self._closes(settled - border):
                    return found  # what is behind the border is judged with what comes next
                # What is observed of sampled steps, and what the first ones are, is looked up again.
                known = begun > 0 and not steps.sampled
                steps = steps.behind(border, begun) if known else self._steps(path)
                continue
            if settled < begun + (1 if begun else FEWEST) or steps.numbers[settled - 1] < self.steps:
                return found
            self.steps = int(steps.numbers[settled - 1]) + 1
            run = self._run(path, [int(end[settled - 1]) for end in steps.ends])
            outcome = self._judged(run, self.steps, steps.sampled)
            if not begun:
                outcome = _without_last_numbers(outcome, self.steps)
            return self.findings.incidents_with(outcome, self._number)
        return found

    def finish(self, path: Path) -> None:
        """Judge what is left of a training that has ended, as far as its steps decide it."""
        steps = self._steps(path)
        sampled = steps is not None and steps.sampled
        last: list[int | None] = [None] * len(self.ranks)
        if steps is not None and sampled and len(self.ranks) > 1:
            last = [int(end[-1]) for end in steps.ends]  # behind these each rank may have observed something else
        run = self._run(path, last)
        if not sampled:
            # Of ranks that have taken different numbers of steps, what the others did without them counts, too.
            made = (int(rank.numbers[rank.windows - 1]) + 1 for rank in align(self._golden, run).run.processes)
            self.steps = max(self.steps, *made)
        outcome = self._judged(run, self.steps, sampled)
        self.findings.take(outcome, self._number)
        self.observed += 0 if steps is None else self._not_judged(steps)
        self._finished = True
        self._number += 1

    def _not_judged(self, steps: _Steps) -> int:
        """How many of the steps that are there are behind the part that was judged."""
        return len(steps.numbers) - (self._kept if self._number else 0)

    @property
    def went_on(self) -> bool:
        """Whether there are more steps than golden's runs had."""
        return self._number > 0

    @property
    def made(self) -> int:
        """Steps that the training has made, as far as its processes have said."""
        told = (rank.source.meta.get("sampling") for rank in self.ranks)
        before = self.resume.steps if self.resume is not None else 0
        counts = [before + int(item.get("steps") or 0) for item in told if isinstance(item, dict)]
        return max([self.steps, *counts])

    def _steps(self, path: Path) -> _Steps | None:
        """The steps that are there; None where there is none yet."""
        run = self._run(path, [None] * len(self.ranks))
        processes = align(self._golden, run).run.processes
        if not all(process.windows for process in processes):
            return None
        if not self._number and not all(map(self._counts, processes)):
            return None
        self.sampled = self.sampled or any(process.sampled for process in processes)
        if self.sampled and self._leave_out_what_others_lack(processes):
            return self._steps(path)
        windows = beside_each_other(processes).windows
        count = len(windows[0])
        if not count:
            return None
        each = list(zip(processes, windows, strict=True))
        own = tuple(process.numbers[mine] + 1 for process, mine in each)
        return _Steps(
            tuple(process.step_ends[mine] for process, mine in each),
            np.max(own, axis=0) - 1,
            own,
            tuple(int(mine[-1]) + 1 for mine in windows),
            all(_closed(process, count) for process in processes),
            any(process.sampled for process in processes),
        )

    def _leave_out_what_others_lack(self, processes: Sequence[Process]) -> bool:
        """Where ranks observe different steps, let go of those that not all of them have; true if there were any."""
        numbers = [process.numbers[: process.windows] for process in processes]
        reached = min(int(known[-1]) for known in numbers)
        left_out = False
        for rank, process, mine in zip(self.ranks, processes, numbers, strict=True):
            lacking = [w for w in np.flatnonzero(mine <= reached) if not all(mine[w] in known for known in numbers)]
            for window in lacking:
                left_out = True
                begin = process.step_ends[window - 1] if window else 0
                rank.leave_out(max(int(begin), rank.begin), int(process.step_ends[window]))
        return left_out

    def _counts(self, process: Process) -> bool:
        """Whether it shows what a step is. A critic may step first, and often, and with the first step of its generator
        nobody knows yet whether the two take turns.
        """
        lead = next((label for label, facts in self._golden.optimizers.items() if facts.get("lead")), "")
        turns = sum(process.names.optimizers[step.optimizer] == lead for step in process.steps)
        return not lead or turns >= FEWEST or process.windows > PATIENCE * self._head

    def _border(self, known: _Steps, settled: int, begun: int) -> int:
        """The number of steps in the rows after which the part that is being read ends; 0 where it goes on."""
        if not begun:
            # Whether a training goes on shows with the step after the last of golden's.
            goes_on = settled > 0 and known.numbers[settled - 1] >= self._head
            return max(1, int(np.searchsorted(known.numbers, self._head))) if goes_on else 0
        rows = self.ranks[0].rows
        for steps in range(begun + 1, settled + 1):
            if steps - begun >= STRETCH:
                return steps
            if len(rows) > ROWS and np.count_nonzero(rows["end"] <= known.ends[0][steps - 1]) >= ROWS:
                return steps
        return 0

    def _closes(self, steps: int) -> bool:
        """Whether so many steps behind a border may have one among them."""
        return steps >= STRETCH or any(len(rank.rows) > ROWS for rank in self.ranks)

    def _judged(self, run: Run, steps: int, sampled: bool) -> CheckOutcome:
        for process in run.processes:
            self.taken_over = self.taken_over or taken_over(process)
        undecided = not self._number and steps < self._head
        part = replace(self._part, undecided=undecided, apart=bool(self._number) and sampled)
        return self._check(run, part)

    def _run(self, path: Path, last: Sequence[int | None]) -> Run:
        found = [rank.process(border) for rank, border in zip(self.ranks, last, strict=True)]
        return Run(path, tuple(found), self.workers)

    def _close(self, outcome: CheckOutcome, run: Run, steps: _Steps, border: int) -> None:
        """Let go of what was judged: so many of the steps that are there."""
        first, made = not self._number, int(steps.numbers[border - 1]) + 1
        for rank, process, ends, own in zip(self.ranks, run.processes, steps.ends, steps.own, strict=True):
            rank.loaded = batches_noted(process)
            rank.close(int(ends[border - 1]), int(own[border - 1]), made, keep=first)
        if first:
            self.first, self._kept = outcome, border
            self._part = replace(self._part, later=True, granted=granted(outcome))
        self.steps = made
        self._number += 1


def _closed(process: Process, steps: int) -> bool:
    """Whether it is said behind the last of these steps that the next one is not observed."""
    marks = process.measures(fmt.UNOBSERVED)
    return process.windows == steps and bool(len(marks) and process.events["seq"][marks[-1]] > process.step_ends[-1])


def _without_last_numbers(outcome: CheckOutcome, steps: int) -> CheckOutcome:
    """What a step has left in a model is looked at when the next one begins."""
    kept = (item for item in outcome.violations if item.invariant.kind is not Kind.NUMERIC or item.step < steps - 1)
    return replace(outcome, violations=tuple(kept))
