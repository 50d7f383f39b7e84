"""The ranks of one launch, followed from their first step on in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pytest_traincheck.alignment.align import align
from pytest_traincheck.check import CheckOutcome
from pytest_traincheck.check.part import Part
from pytest_traincheck.check.result import Incident
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.online.findings import Findings, granted
from pytest_traincheck.rules.model import Kind
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.columns import Rows
from pytest_traincheck.trace.growing import GrowingProcess
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.run import Run
from pytest_traincheck.trace.stretch import Stretch, first_sights, joined, last_states

Check = Callable[[Run, Part], CheckOutcome]

STRETCH = 64
"""Steps that are judged together."""
ROWS = 200_000
"""Events of a process after which a stretch of fewer steps is closed."""

FEWEST = 2
"""Steps that are needed to see what a step is made of: a schedule moves between two of them."""
PATIENCE = 4
"""Multiple of golden's steps after which nobody waits for golden's optimizer any more."""

_NOTHING: Rows = np.empty(0, dtype=fmt.EVENT)


@dataclass
class Rank:
    """One process of a launch: how it began, what is known of the steps that are gone, and the rows since."""

    source: GrowingProcess
    head: Rows = field(default_factory=lambda: _NOTHING)
    states: Rows = field(default_factory=lambda: _NOTHING)
    """The last change of each variable before the rows."""
    rows: Rows = field(default_factory=lambda: _NOTHING)
    begin: int = 0
    """`seq` of the last event of the steps that are gone, or of the head."""

    def add(self, rows: Rows) -> None:
        self.rows = joined([self.rows, rows]) if len(rows) else self.rows

    def process(self, last: int | None, head: int, left_out: int) -> Process:
        """What is there, up to the event with the number `last`, as a process of its own."""
        # A call that began before the border is part of the step, though it ends behind it: a gradient scaler steps
        # around its optimizer.
        rows = self.rows if last is None else self.rows[self.rows["seq"] <= last]
        if not len(self.head):
            return Process(replace(self.source.raw(rows), until=last))
        head_end = int(self.head["seq"].max())
        raw = self.source.raw(joined([self.head, first_sights(self.states, head_end), rows]))
        return Process(replace(raw, stretch=Stretch(self.begin, head, head_end, left_out), until=last))

    def close(self, last: int, *, keep: bool) -> None:
        """Let go of the rows up to `last`, or keep them as the beginning."""
        gone = self.rows["seq"] <= last
        rows = self.rows[gone]
        if keep:
            self.head = rows
        self.states = last_states(self.states, rows)
        self.rows = self.rows[~gone]
        self.begin = last


class LaunchGroup:
    """Judges the steps of its ranks as they are completed, those of all ranks together."""

    def __init__(self, golden: Golden, check: Check, ranks: Sequence[Rank], *, head: int, other_length: bool) -> None:
        """`head`: so many first steps are compared with golden's own."""
        self.ranks: tuple[Rank, ...] = tuple(ranks)
        self.findings = Findings(golden)
        self.workers: tuple[Process, ...] = ()
        self.steps = 0
        """Steps that all ranks have completed."""
        self.first: CheckOutcome | None = None
        """What the check of golden's steps found, when there are more."""
        self._golden = golden
        self._check = check
        self._head = head
        self._left_out = 0
        self._part = Part(goes_on=True, other_length=other_length)
        self._number = 0

    @property
    def complete(self) -> bool:
        """Whether every rank that the launch has is known."""
        world = max(int(rank.source.meta.get("world_size") or 1) for rank in self.ranks)
        return len(self.ranks) >= world

    def join(self, rank: Rank) -> None:
        """Take another rank in, in the order of ranks."""
        self.ranks = tuple(sorted((*self.ranks, rank), key=lambda each: int(each.source.meta.get("rank") or 0)))

    def judge(self, path: Path, *, ended: bool) -> tuple[Incident, ...] | None:
        """Judge the steps that were completed since; None where there are none.

        What is found is to be told now. Incidents that were found before are among them.
        """
        found = None
        while (ends := self._ends(path)) is not None:
            steps = min(map(len, ends))
            settled = steps if ended else steps - 1
            begun = self._head if self._number else 0
            border = self._border(ends, settled, begun)
            if border:
                outcome = self._judged(path, [int(end[border - 1]) for end in ends], border)
                self.findings.take(outcome, self._number)
                self._close(outcome, [int(end[border - 1]) for end in ends], border - begun)
                found = self.findings.incidents()
                continue
            known = settled + self._left_out
            if known <= self.steps or settled < begun + (1 if begun else FEWEST):
                return found
            self.steps = known
            outcome = self._judged(path, [int(end[settled - 1]) for end in ends], settled)
            if not begun:
                outcome = _without_last_numbers(outcome, settled)
            return self.findings.incidents_with(outcome, self._number)
        return found

    def finish(self, path: Path) -> None:
        """Judge what is left of a training that has ended, as far as its steps decide it."""
        outcome = self._judged(path, [None] * len(self.ranks), self.steps)
        self.findings.take(outcome, self._number)
        self._number += 1

    @property
    def went_on(self) -> bool:
        """Whether there are more steps than golden's runs had."""
        return self._number > 0

    def _ends(self, path: Path) -> list[np.ndarray] | None:
        """Where the steps of each rank end; None where there is none yet."""
        run = self._run(path, [None] * len(self.ranks))
        processes = align(self._golden, run).run.processes
        ends = [process.step_ends for process in processes]
        if not all(map(len, ends)) or (not self._number and not all(map(self._counts, processes))):
            return None
        return ends

    def _counts(self, process: Process) -> bool:
        """Whether it shows what a step is. A critic may step first, and often, and with the first step of its generator
        nobody knows yet whether the two take turns.
        """
        lead = next((label for label, facts in self._golden.optimizers.items() if facts.get("lead")), "")
        turns = sum(process.names.optimizers[step.optimizer] == lead for step in process.steps)
        return not lead or turns >= FEWEST or process.windows > PATIENCE * self._head

    def _border(self, ends: Sequence[np.ndarray], settled: int, begun: int) -> int:
        """The number of steps in the rows after which the part that is being read ends; 0 where it goes on."""
        if not begun:
            # Whether a training goes on shows with the step after the last of golden's.
            return self._head if settled > self._head else 0
        rows = self.ranks[0].rows
        for steps in range(begun + 1, settled + 1):
            if steps - begun >= STRETCH:
                return steps
            if len(rows) > ROWS and np.count_nonzero(rows["end"] <= ends[0][steps - 1]) >= ROWS:
                return steps
        return 0

    def _judged(self, path: Path, last: Sequence[int | None], steps: int) -> CheckOutcome:
        part = replace(self._part, undecided=not self._number and steps < self._head)
        return self._check(self._run(path, last), part)

    def _run(self, path: Path, last: Sequence[int | None]) -> Run:
        head = self._head if self._number else 0
        found = [rank.process(border, head, self._left_out) for rank, border in zip(self.ranks, last, strict=True)]
        return Run(path, tuple(found), self.workers)

    def _close(self, outcome: CheckOutcome, last: Sequence[int], steps: int) -> None:
        first = not self._number
        for rank, border in zip(self.ranks, last, strict=True):
            rank.close(border, keep=first)
        if first:
            self.first = outcome
            self._part = replace(self._part, later=True, granted=granted(outcome))
        else:
            self._left_out += steps
        self.steps = self._head + self._left_out
        self._number += 1


def _without_last_numbers(outcome: CheckOutcome, steps: int) -> CheckOutcome:
    """What a step has left in a model is looked at when the next one begins."""
    kept = (item for item in outcome.violations if item.invariant.kind is not Kind.NUMERIC or item.step < steps - 1)
    return replace(outcome, violations=tuple(kept))
