"""Workers of DataLoaders, and where among the events of the process that trains they begin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_traincheck.trace import Process, Run

BEGIN = "batch.workers"
"""Measure of an iterator's first batch: the seed that its workers share."""


@dataclass(frozen=True)
class Worker:
    """A worker, its number among those of its iterator, the seed that these share, the position of the process that it
    works for, and the row there of the first batch that its iterator gave; -1 where that is in no step at hand.
    """

    process: Process
    number: int
    iterator: int
    parent: int
    row: int


def workers_of(run: Run) -> Iterator[Worker]:
    """The workers that have begun to work for a process of a run.

    Traces of earlier versions do not say where: their workers all begin with the first batch of the process.
    """
    parents = {int(process.raw.meta.get("pid", 0)): number for number, process in enumerate(run.processes)}
    for worker in run.workers:
        starts = worker.measures("worker")
        parent = parents.get(int(worker.raw.meta.get("ppid", 0)))
        if parent is None or not len(starts):
            continue
        iterator, number = int(worker.events["digest"][starts[0]]), int(worker.events["value"][starts[0]])
        yield Worker(worker, number, iterator, parent, _begin(run.processes[parent], iterator))


def first_batch(process: Process) -> int:
    """The row of a process's first batch; 0 where it loads none."""
    rows = process.rows_of_type("data")
    return int(rows[0]) if len(rows) else 0


def _begin(process: Process, iterator: int) -> int:
    told = process.memo(BEGIN, lambda: _begins(process))
    return told.get(iterator, -1) if told else first_batch(process)


def _begins(process: Process) -> Mapping[int, int]:
    """The rows of first batches by the seeds of their workers. Of several with one seed the last counts: the others may
    lie in steps that were judged before.
    """
    rows = process.measures(BEGIN)
    calls = process.parent_row[rows]
    return {
        int(seed): int(call) if call >= 0 else int(row)
        for seed, call, row in zip(process.events["digest"][rows].tolist(), calls.tolist(), rows.tolist(), strict=True)
    }
