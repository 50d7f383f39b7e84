"""Follows a run directory while its processes write, and says what is wrong as soon as a step shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pytest_traincheck.check import CheckOutcome, check_run
from pytest_traincheck.check.part import Part
from pytest_traincheck.check.result import Incident, InvariantVerdict
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.online.findings import together
from pytest_traincheck.online.launch_group import ROWS, LaunchGroup, Rank
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.columns import Rows
from pytest_traincheck.trace.growing import GrowingProcess
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.run import Run, reject_unreliable
from pytest_traincheck.trace.stretch import joined

PIECE = 1 << 14
"""Events of a process that are read before they are judged: what is held follows from it, and from how long a step is.
"""
HEAD = 8
"""First steps that are compared with golden's own, of goldens that do not say how long their runs were."""
WORKERS = 256
"""Workers of data loaders that are looked at: the first half of them, and the latest. Each epoch may start new ones."""
_TRAINING = frozenset({"optimizer", "autograd"})


@dataclass(frozen=True)
class Followed:
    """What a training that has ended was found to be."""

    verdicts: tuple[InvariantVerdict, ...]
    incidents: tuple[Incident, ...]
    first: CheckOutcome | None
    """What the check of the first steps, those that golden's runs had, found."""
    steps: int


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
    _known: dict[Path, _Seen] = field(default_factory=dict)
    _groups: list[LaunchGroup] = field(default_factory=list)

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
        for seen in self._known.values():
            seen.read(self.piece)
        self._group()
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
        return bool(self._groups) and all(rank.source.done for group in self._groups for rank in group.ranks)

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
        return Followed(verdicts, incidents, first, made)

    def reject_unreliable(self) -> None:
        """Raises `TraceError` where the probe failed in a training process, or events were lost."""
        for group in self._groups:
            for rank in group.ranks:
                reject_unreliable(rank.source.raw(np.empty(0, dtype=fmt.EVENT)), finished=False)

    def _discover(self) -> None:
        for path in sorted(self.run_dir.glob("proc-*")) if self.run_dir.is_dir() else ():
            if path not in self._known and (path / "meta.json").exists() and (path / "events.bin").exists():
                self._known[path] = _Seen(GrowingProcess(path))

    def _group(self) -> None:
        """Put training processes that are new into the launch that they belong to: the first of each rank is in the
        first launch.
        """
        new = [seen for seen in self._known.values() if seen.trains and seen.rank is None]
        for seen in sorted(new, key=lambda item: (int(item.source.meta.get("rank") or 0), item.started)):
            rank = seen.begin()
            number = int(seen.source.meta.get("rank") or 0)
            for group in self._groups:
                if all(int(other.source.meta.get("rank") or 0) != number for other in group.ranks):
                    group.join(rank)
                    break
            else:
                self._groups.append(self._new_group([rank]))
        workers = sorted((seen for seen in self._known.values() if seen.is_worker), key=lambda item: item.started)
        if len(workers) > WORKERS:
            for seen in workers[WORKERS // 2 : -WORKERS // 2]:
                seen.forget()
            workers = [*workers[: WORKERS // 2], *workers[-WORKERS // 2 :]]
        for group in self._groups:
            group.workers = tuple(seen.process() for seen in workers)

    def _new_group(self, ranks: Sequence[Rank]) -> LaunchGroup:
        head = self.golden.steps or HEAD
        return LaunchGroup(self.golden, self._check, ranks, head=head, other_length=self.other_length)

    def _check(self, run: Run, part: Part) -> CheckOutcome:
        return check_run(self.golden, run, same_spec=self.same_spec, part=part)


class _Seen:
    """One process of the run: what it is, and its rows until it is known to train."""

    def __init__(self, source: GrowingProcess) -> None:
        self.source = source
        self.rank: Rank | None = None
        self.more = False
        self.trains = False
        self.is_worker = False
        self._rows: list[Rows] = []
        self._forgotten = False
        self._made: tuple[int, Process] | None = None

    @property
    def started(self) -> float:
        return float(self.source.meta.get("started") or 0.0)

    def read(self, piece: int) -> None:
        """Read on."""
        self.more = False
        if self.source.done:
            return
        rows = self.source.next_rows(piece)
        self.more = len(rows) >= piece
        if not len(rows) or self._forgotten:
            return
        if self.rank is not None:
            self.rank.add(rows)
            return
        self._rows.append(rows)
        self._classify(rows)
        if not self.trains and not self.is_worker and sum(map(len, self._rows)) > ROWS:
            # It neither trains nor loads data: what it does is nobody's business here.
            self._rows = self._rows[-1:]

    def begin(self) -> Rank:
        """The rank that it turns out to be."""
        self.rank = Rank(self.source)
        for rows in self._rows:
            self.rank.add(rows)
        self._rows = []
        return self.rank

    def process(self) -> Process:
        """All of a worker, made anew when more of it was read."""
        if self._made is None or self._made[0] != self.source.read:
            self._made = self.source.read, Process(self.source.raw(joined([_NONE, *self._rows])))
        return self._made[1]

    def forget(self) -> None:
        """Let go of what was read, and of what will be."""
        self._rows, self._forgotten = [], True

    def _classify(self, rows: Rows) -> None:
        tables = self.source.tables
        calls = np.unique(rows["subject"][rows["kind"] == fmt.CALL]).tolist()
        self.trains = self.trains or any(tables["api"][number].get("type") in _TRAINING for number in calls)
        measures = np.unique(rows["subject"][rows["kind"] == fmt.MEASURE]).tolist()
        self.is_worker = self.is_worker or any(tables["measure"][number].get("name") == "worker" for number in measures)


_NONE: Rows = np.empty(0, dtype=fmt.EVENT)
