"""Whether a process that goes on with a training is given what the training began with, as if it began again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pytest_traincheck.trace import Process
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints
from pytest_traincheck.trace.stages import TRAIN

ENOUGH = 2
"""Batches that are enough to know. Those that follow do not unsay it: how many were seen when somebody looks does not
matter.
"""


def begins_again(process: Process, rows: Ints, original: Ints, *, batches: bool) -> Bools:
    """Of batches or random states, those of a process that goes on with a training which are what the training began
    with, one by one from the first on. `original`: for each the first row with the same content.

    Where the data come in their own order that is right at the end of an epoch, and nowhere else. A process that gets
    behind the batches of the steps before by loading them begins with them, as it should, where these were all that the
    training has had; and with data in their own order in any epoch.
    """
    found = np.zeros(len(rows), dtype=bool)
    beginning = _beginning(process, rows)
    behind = loaded_again(process, rows) if batches else found
    for era, mine in _resumes(process, rows):
        size = min(len(mine), len(beginning))
        others = np.flatnonzero(original[mine[:size]] != rows[beginning[:size]])
        alike = int(others[0]) if len(others) else size
        if alike < (ENOUGH if batches else 1):
            continue
        steps, again = process.step_number(int(rows[mine[0]])), int(np.count_nonzero(behind[mine]))
        if batches and _is_right(process, era, steps, again, len(beginning)):
            continue
        found[mine[:alike]] = True
    return found


def loaded_again(process: Process, rows: Ints) -> Bools:
    """Of batches, those that a process which goes on with a training loads to get behind them: so many more before it
    first trains than were loaded before the training began.
    """
    found = np.zeros(len(rows), dtype=bool)
    entries = process.entry_rows
    entries = entries[process.stage[entries] == TRAIN]
    within = process.era(process.events["seq"][entries].astype(np.int64))

    def before(mine: Ints, era: int) -> int:
        return int(np.count_nonzero(rows[mine] < entries[within == era].min(initial=len(process.events))))

    ahead = before(_beginning(process, rows), 0)
    for era, mine in _resumes(process, rows):
        found[mine[: max(0, before(mine, era) - ahead)]] = True
    return found


def _beginning(process: Process, rows: Ints) -> Ints:
    """Which rows are of the beginning of the training: all that its first process has without a gap. What it had ahead
    when it was left comes behind a gap.
    """
    seq, stretch = process.events["seq"][rows].astype(np.int64), process.raw.stretch
    first = process.era(seq) == 0
    return np.flatnonzero(first if stretch is None else first & (seq <= stretch.head_end))


def _resumes(process: Process, rows: Ints) -> Iterator[tuple[int, Ints]]:
    """Each process that goes on with the training, and which rows are its own, where its first steps are there."""
    eras, stretch = process.era(process.events["seq"][rows].astype(np.int64)), process.raw.stretch
    for era, join in enumerate(process.raw.joins, start=1):
        mine = np.flatnonzero(eras == era)
        if len(mine) and (stretch is None or join <= stretch.head_end or join >= stretch.begin):
            yield era, mine


def _is_right(process: Process, era: int, steps: int, behind: int, begun: int) -> bool:
    """Whether a process that goes on after so many steps should begin with the batches that the training began with.
    `behind`: so many it has loaded to get behind them; `begun`: so many are there of the beginning.
    """
    if not drawn_at_random(process):
        return behind > 0 or _ended_before(process, process.raw.joins[era - 1])
    stretch = process.raw.stretch
    in_each = begun // max(1, steps if stretch is None else stretch.head)
    return behind > 0 and behind >= steps * in_each


def drawn_at_random(process: Process) -> bool:
    """Whether the data are known to come in random order, and not in that of the data set."""
    drawn = _drawn(process)
    return bool((drawn == 1).any())


def may_be_drawn_at_random(process: Process) -> bool:
    """Whether they may come so, where a sampler has an order of its own: none is known to go through the data set."""
    return not len(_drawn(process))


def _drawn(process: Process) -> npt.NDArray[np.float64]:
    return process.events["value"][process.measures("batch.shuffled")]


def _ended_before(process: Process, join: int) -> bool:
    """Whether the epoch had come to its end when a training was left, as far as that was seen."""
    loads = process.rows_of_type("data")
    seq = process.events["seq"][loads]
    ends = loads[((process.events["flags"][loads] & fmt.RAISED) != 0) & (seq <= join)]
    batches = loads[(process.events["digest"][loads] != 0) & (seq <= join)]
    return not len(batches) or bool(len(ends) and ends[-1] > batches[-1])
