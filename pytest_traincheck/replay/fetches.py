"""What batches were made of: which examples the sampler chose, and what was drawn while they were put together.

The training process knows both of a batch that it makes itself. Of one that a worker makes it knows the worker and
which of its fetches it was; the rest the worker has noted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_traincheck.trace import Process, Run


@dataclass(frozen=True)
class Fetch:
    """How one batch was made. Hashes; `chosen` is 0 where nobody knows which examples it was to hold, as of a stream.

    `drawn` is 0 where no generator that can be seen moved, and else says from which state to which.
    """

    chosen: int
    drawn: int = 0
    by_worker: bool = False


def fetches(run: Run, process: Process) -> Mapping[int, Fetch]:
    """The batches of a training process of which it is known how they were made, by their number in the trace."""
    made = run.memo("fetches of workers", lambda: _of_workers(run))
    found = {batch: Fetch(chosen) for batch, chosen in _measured(process, "batch.chosen").items()}
    for batch, maker in _measured(process, "batch.maker").items():
        if maker in made:
            found[batch] = made[maker]
    return found


def _of_workers(run: Run) -> Mapping[int, Fetch]:
    """Every fetch that a worker has noted, by its name."""
    found: dict[int, Fetch] = {}
    for worker in run.workers:
        drawn, chosen = _measured(worker, "fetch.drawn"), _measured(worker, "fetch.chosen")
        for call, name in _measured(worker, "fetch").items():
            found[name] = Fetch(chosen.get(call, 0), drawn.get(call, 0), by_worker=True)
    return found


def _measured(process: Process, name: str) -> Mapping[int, int]:
    """Call -> hash of the measures of one name."""
    rows, events = process.measures(name), process.events
    return dict(zip(events["parent"][rows].tolist(), events["digest"][rows].tolist(), strict=True))
