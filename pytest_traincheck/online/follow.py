"""Follows a run directory while its processes write, and says what is wrong as soon as a step shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pytest_traincheck.check.evaluate import CheckOutcome, check_run
from pytest_traincheck.check.part import Part
from pytest_traincheck.check.result import Incident, InvariantVerdict
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.online.ending import Ending, Resume
from pytest_traincheck.online.findings import together
from pytest_traincheck.online.launch_group import LaunchGroup
from pytest_traincheck.online.launches import Launches
from pytest_traincheck.online.rank import Rank
from pytest_traincheck.online.seen import Seen
from pytest_traincheck.relations.later_optimizers import TakenOver
from pytest_traincheck.relations.restored import begins_from_nothing
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.growing import GrowingProcess
from pytest_traincheck.trace.run import Run, reject_unreliable

PIECE = 1 << 14
"""Events of a process that are read before they are judged: what is held follows from it, and from how long a step is.
"""
HEAD = 8
"""First steps that are compared with golden's own, of goldens that do not say how long their runs were."""
WORKERS = 256
"""Workers of data loaders that are looked at: the first half of them, and the latest. Each epoch may start new ones."""


@dataclass(frozen=True)
class Followed:
    """What a training that has ended was found to be."""

    verdicts: tuple[InvariantVerdict, ...]
    incidents: tuple[Incident, ...]
    first: CheckOutcome | None
    """What the check of the first steps, those that golden's runs had, found."""
    steps: int
    taken_over: TakenOver | None = None
    """Which optimizers took the steps that golden's runs never came to, where these were others."""


@dataclass
class Follower:
    """Reads what is there, judges it, and lets go of it.

    Args:
        run_dir: where the processes write their traces.
        same_spec, other_length: see `check_run` and `Part`.
        piece: events of a process that are read at once.
    """

    run_dir: Path
    golden: Golden
    same_spec: bool
    other_length: bool = False
    piece: int = PIECE
    told: Ending | None = None
    """What the training goes on with, where somebody says so."""
    earlier: Callable[[], Iterable[Ending]] = tuple
    """What it may go on with, where nobody does."""
    _known: dict[Path, Seen] = field(default_factory=dict)
    _launches: Launches = field(init=False)

    def __post_init__(self) -> None:
        self._launches = Launches(
            self.run_dir,
            self._new_group,
            self.told,
            self.earlier,
            self.same_spec,
            begins_from_nothing(self.golden.invariants),
        )

    @property
    def _groups(self) -> list[LaunchGroup]:
        return self._launches.groups

    def advance(self, *, ended: bool = False) -> tuple[Incident, ...]:
        """Read and judge what was written since, at most `piece` events of each process; every incident that is known
        now.

        Args:
            ended: nothing is written any more.

        Raises:
            TraceError: a trace is damaged, or the probe failed in a training process.
            GoldenError: the numbers of the golden do not belong to its rules.
        """
        self._discover()
        # What goes on with a training waits until all of that was read, and is not held in memory meanwhile.
        behind = any(seen.more for seen in self._known.values() if seen.rank is not None)
        for seen in self._known.values():
            if not (behind and seen.full):
                seen.read(self.piece)
        self._launches.take(self._known.values(), ended=ended and not self.behind)
        self._give_workers()
        found: list[Incident] = []
        for group in self._groups:
            over = ended or all(rank.source.done for rank in group.ranks)
            now = group.judge(self.run_dir, ended=over) if group.complete or ended else None
            found.extend(now if now is not None else group.findings.incidents())
        return tuple(found)

    @property
    def behind(self) -> bool:
        """Whether there was more to read than was read."""
        return any(seen.more for seen in self._known.values())

    @property
    def over(self) -> bool:
        """Whether every training process said that it ended, and there was one."""
        # A process that was killed says nothing; that another one goes on with its training says enough.
        last = self._groups[-1:] if self.resumes else self._groups
        done = all(rank.source.done for group in last for rank in group.ranks)
        return bool(self._groups) and done and not self._launches.waits(self._known.values())

    @property
    def steps(self) -> int:
        """Training steps that were judged."""
        return max((group.steps for group in self._groups), default=0)

    def let_go(self, kept: int) -> None:
        """Give back to the disk what was judged of the traces, but the first steps and the last `kept` bytes of each.
        Raises `OSError`.
        """
        for group in self._groups:
            for rank in group.ranks:
                rank.let_go(kept)

    @property
    def gone(self) -> bool:
        """Whether something was."""
        return any(rank.gone for group in self._groups for rank in group.ranks)

    @property
    def sampled(self) -> bool:
        """Whether not every step was observed."""
        return any(group.sampled for group in self._groups)

    @property
    def observed(self) -> int:
        """Training steps that were observed, when all is finished."""
        return max((group.observed for group in self._groups), default=0)

    @property
    def midway(self) -> bool:
        """Whether it goes on with a training of which nothing is known."""
        return any(group.midway for group in self._groups)

    @property
    def resumes(self) -> Sequence[Resume]:
        """Where a launch goes on with an earlier training."""
        return self._launches.resumes

    def ending(self) -> Ending | None:
        """What the latest launch has left until now."""
        return self._groups[-1].ending(self.run_dir, same_spec=self.same_spec) if self._groups else None

    @property
    def saves(self) -> int:
        """How often something was saved, as far as it was looked at; more than before: there is another state."""
        return sum(rank.looked for group in self._groups for rank in group.ranks)

    @property
    def rows(self) -> int:
        """Events that were read."""
        return sum(seen.source.read for seen in self._known.values())

    @property
    def longer(self) -> bool:
        """Whether there are more training steps than golden's runs had."""
        return any(group.went_on for group in self._groups)

    def finish(self) -> Followed:
        """Judge what is left when everything has been read; for a training that is `longer` than golden's."""
        for group in self._groups:
            group.finish(self.run_dir)
        first = next((group.first for group in self._groups if group.first is not None), None)
        verdicts = together([group.findings.verdicts for group in self._groups], self.golden)
        incidents = tuple(incident for group in self._groups for incident in group.findings.incidents())
        made = max((group.made for group in self._groups), default=0)
        taken_over = next((group.taken_over for group in self._groups if group.taken_over is not None), None)
        return Followed(verdicts, incidents, first, made, taken_over)

    def reject_unreliable(self) -> None:
        """Raises `TraceError` where the probe failed in a training process, or events were lost."""
        for group in self._groups:
            for rank in group.ranks:
                reject_unreliable(rank.source.raw(np.empty(0, dtype=fmt.EVENT)), finished=False)

    def _discover(self) -> None:
        for path in sorted(self.run_dir.glob("proc-*")) if self.run_dir.is_dir() else ():
            if path not in self._known and (path / "meta.json").exists() and (path / "events.bin").exists():
                self._known[path] = Seen(GrowingProcess(path))

    def _give_workers(self) -> None:
        workers = sorted((seen for seen in self._known.values() if seen.is_worker), key=lambda item: item.started)
        if len(workers) > WORKERS:
            for seen in workers[WORKERS // 2 : -WORKERS // 2]:
                seen.forget()
            workers = [*workers[: WORKERS // 2], *workers[-WORKERS // 2 :]]
        for group in self._groups:
            group.workers = tuple(seen.process() for seen in workers)

    def _new_group(self, ranks: Sequence[Rank], ending: Ending | None) -> LaunchGroup:
        if ending is not None:
            # Which rules are for a training follows from how it began.
            self.same_spec = ending.same_spec
        head = self.golden.steps or HEAD
        return LaunchGroup(self.golden, self._check, ranks, head=head, other_length=self.other_length)

    def _check(self, run: Run, part: Part) -> CheckOutcome:
        return check_run(self.golden, run, same_spec=self.same_spec, part=part)
