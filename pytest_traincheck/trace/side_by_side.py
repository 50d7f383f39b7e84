"""Which steps of the ranks of a launch stand beside each other, where some ranks take fewer than others.

A rank that has no more data waits, as in `torch.distributed.algorithms.join.Join`, until all others have come to the
end of theirs, and answers their collectives meanwhile. Its next step stands beside the next one of theirs, whatever
number each has on its own rank; nothing stands beside the steps that it did not take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.run import Run


@dataclass(frozen=True)
class SideBySide:
    """The steps that all ranks of a launch take together, for each of them."""

    windows: tuple[Ints, ...]
    """The same number for each rank."""
    alone: tuple[tuple[tuple[int, int], ...], ...]
    """Between which times (behind the first, up to the second) a rank does what has nothing beside it: from the last
    step of all ranks to the end of their wait.
    """

    @property
    def count(self) -> int:
        return len(self.windows[0])

    def together(self, place: int, seq: Ints) -> Bools:
        """Which of these times of a rank lie in what all ranks do."""
        found = np.ones(len(seq), dtype=bool)
        for begin, end in self.alone[place]:
            found &= (seq <= begin) | (seq > end)
        return found


def side_by_side(run: Run, peers: tuple[int, ...]) -> SideBySide:
    """The same for the processes of a run at these positions."""
    return run.memo(("side by side", peers), lambda: beside_each_other([run.processes[place] for place in peers]))


def beside_each_other(processes: Sequence[Process]) -> SideBySide:
    """Steps with the same number behind a wait are one step. Where not every step is observed, not every wait is, and
    steps are taken as they come.
    """
    waits = [process.events["seq"][process.measures(fmt.WAITED)].astype(np.int64) for process in processes]
    if any(process.sampled for process in processes):
        waits = [found[:0] for found in waits]
    before = [
        np.searchsorted(process.step_ends, found, side="right") for process, found in zip(processes, waits, strict=True)
    ]
    known = min(map(len, waits))
    windows: list[list[Ints]] = [[] for _ in processes]
    alone: list[list[tuple[int, int]]] = [[] for _ in processes]
    for part in range(known + 1):
        begins = [int(found[part - 1]) if part else 0 for found in before]
        ends = [
            int(found[part]) if part < len(found) else process.windows
            for found, process in zip(before, processes, strict=True)
        ]
        count = min(end - begin for begin, end in zip(begins, ends, strict=True))
        for place, (process, begin) in enumerate(zip(processes, begins, strict=True)):
            windows[place].append(np.arange(begin, begin + count))
            if part < known:
                earlier = int(waits[place][part - 1]) if part else 0
                last = int(process.step_ends[begin + count - 1]) if count else earlier
                alone[place].append((last, int(waits[place][part])))
    return SideBySide(tuple(np.concatenate(parts) for parts in windows), tuple(map(tuple, alone)))
