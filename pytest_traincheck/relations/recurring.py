"""What came every so many steps in all of golden's run, and comes no more in the later steps of a longer training."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from pytest_traincheck.relations.called import Called
from pytest_traincheck.relations.context import module_roots
from pytest_traincheck.trace import Process
from pytest_traincheck.trace.labels import Ints, Labels

_FEWEST = 3
"""Times that something has to come in golden to come at a pace."""
_PATIENCE = 4
"""Paces that are waited for: the data may say that it is late once."""


def pace_of(at: Sequence[int], steps: int) -> int:
    """Every how many steps something comes that comes after `at` steps of a run of `steps`; 0 where it comes otherwise,
    and where it is over before the run is.
    """
    points = [point for point in at if point]
    if len(points) < _FEWEST:
        return 0
    pace = points[0]
    regular = all(after - before == pace for before, after in pairwise(points))
    return pace if pace > 1 and regular and steps - points[-1] <= pace else 0


def stopped_after(process: Process, rows: Ints, at: Sequence[int], steps: int) -> int | None:
    """After how many steps of the training something was due that has not come since, in a stretch of later steps; -1
    where it goes on, and None where that is not said.

    `rows`: where it happens; `at` and `steps` as in `pace_of`. It is asked only of a training in which it came as in
    golden as long as golden's runs were, and in which the same optimizers train as then.
    """
    stretch, pace = process.raw.stretch, pace_of(at, steps)
    if stretch is None or not pace or process.raw.joins or process.sampled:
        return None
    numbers = process.numbers
    points = np.unique(numbers[process.window[rows]])
    if not {point for point in at if 0 < point < stretch.head} <= {*points.tolist()}:
        return None
    begin, end = stretch.head + stretch.left_out, int(numbers[process.windows])
    came = [begin, *points[(points > begin) & (points < end)].tolist(), end]
    for before, after in pairwise(came):
        if after - before > _PATIENCE * pace:
            return before + pace if _same_optimizers(process, before + pace, stretch.head) else None
    return -1 if end - begin > _PATIENCE * pace else None


def _same_optimizers(process: Process, since: int, head: int) -> bool:
    """Whether the optimizers that step from one step of the training on are those that did in its beginning."""
    numbers = process.numbers[process.window[[step.row for step in process.steps]]]
    names = np.array([process.names.optimizers[step.optimizer] for step in process.steps])
    return {*names[numbers >= since].tolist()} == {*names[numbers < head].tolist()}


def is_scheduled(process: Process, called: Called) -> bool:
    """Whether these are calls of learning-rate schedulers."""
    return dict(zip(process.api_names, process.api_types, strict=True)).get(called.api) == "scheduler"


def is_used(process: Process, root: str, since: int) -> bool:
    """Whether a model is called from one step of the training on."""
    rows = process.entry_rows
    rows = rows[process.numbers[process.window[rows]] >= since]
    roots = Labels.of(module_roots(process)[process.events["mod"][rows]], process.names.roots)
    return bool(roots.isin([root]).any())


def row_of(process: Process, number: int) -> int:
    """The step with that number, of all that count iterations; the last one where there is none."""
    rows = [step.row for step in process.lead_steps]
    place = int(np.searchsorted(process.numbers[process.window[rows]], number))
    return rows[min(place, len(rows) - 1)]
