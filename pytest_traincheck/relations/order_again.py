"""Batches that are drawn in random order, and come in the order of an earlier part of the same training.

A generator that is seeded again on the way, as for samples that are to be comparable, draws for the data what it has
drawn before. That is certain once several different batches have come one after the other as they did before: chance
explains a few batches of a small data set, and not so many. Nor may the data be drawn alike in every epoch on purpose:
some epoch of the training must have begun with batches that nobody had seen. Of a sampler with an order of its own
nobody knows whether it draws at random: there three epochs must have.

A batch is known by the examples that were chosen for it where that was seen: what is made of them may be drawn too, as
crops are. Otherwise it is known by its content.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from pytest_traincheck.relations.begun_again import drawn_at_random, may_be_drawn_at_random
from pytest_traincheck.trace import Process
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints
from pytest_traincheck.trace.stretch import Loaded

EXAMPLES: Final = "batch.examples"
"""Measure of a batch: a hash of the examples that a sampler chose for it."""
EPOCH: Final = "batch.epoch"
"""Measure of the first batch of an iteration over data: the number of the epoch that a sampler has drawn for."""
ALIKE = 3
"""Iterations one after the other for the same epoch that are a mistake: a training may go through one twice, as with
another optimizer.
"""
_KEPT = 50_000
"""Batches of a training that are remembered, those that came last."""
_FEWEST_DIFFERENT = 8
"""Different batches that a training must have had: the order of fewer often comes again by chance."""
_CHANCE = math.log(1e9)
"""How improbable the same order has to be, as a logarithm. Of n batches there are n! orders, whose logarithm is more
than n (log n - 1): so much does each batch that follows another as before add to it.
"""
_FEWEST = 4
"""Batches that are the least for an order."""
_FRESH, _FRESH_OF_OWN = 1, 3
"""Epochs that must have begun with new batches, where data are known to be drawn at random, and where they may be."""


def noted(process: Process, training: Ints) -> Loaded:
    """What is known of the batches of a training, with those of the part that a process is: the rows `training`."""
    before = _before(process)
    if process.sampled or process.raw.joins:
        return Loaded()  # Nobody knows what follows what.
    new = _of_part(process, training, before)
    digests, steps, epochs = _joined(before, new)
    numbers = np.concatenate([before.numbers, new.numbers])[1 - ALIKE :]
    return Loaded(digests[-_KEPT:], steps[-_KEPT:], epochs[-_KEPT:], new.epoch, new.open, numbers)


def drawn_for(process: Process, training: Ints) -> tuple[Ints, Bools]:
    """Measures of the first batches of training of iterations over data that a sampler has drawn for a numbered epoch,
    and for which of them it had drawn for the same number in the iterations before.
    """
    rows = _begun(process, training)
    before, stale = _before(process).numbers, np.zeros(len(rows), dtype=bool)
    if not process.sampled and not process.raw.joins:
        mine = process.judged(rows)
        numbers = np.concatenate([before, _numbers(process, rows[mine])])
        alike = np.diff(numbers) == 0
        place = np.arange(len(before), len(numbers))
        stale[mine] = [bool(at >= ALIKE - 1 and alike[at - ALIKE + 1 : at].all()) for at in place.tolist()]
    return rows, stale


def _begun(process: Process, training: Ints) -> Ints:
    """Measures of the first batches of iterations that draw for an epoch, of those for training."""
    rows = process.measures(EPOCH)
    return rows[np.isin(process.parent_row[rows], training)]


def _numbers(process: Process, rows: Ints) -> Ints:
    return process.events["value"][rows].astype(np.int64)


def comes_again(process: Process, training: Ints) -> tuple[Bools, Ints]:
    """Of the batches of training that a process has, those of later steps that come in an order that was there before,
    and for each the step in which it came then.
    """
    found, origin = np.zeros(len(training), dtype=bool), np.zeros(len(training), dtype=np.int64)
    before = _before(process)
    fresh = _FRESH if drawn_at_random(process) else _FRESH_OF_OWN if may_be_drawn_at_random(process) else 0
    if not len(before.digests) or process.sampled or process.raw.joins or not fresh:
        return found, origin
    mine = process.judged(training)
    new = _of_part(process, training, before)
    digests, steps, epochs = _joined(before, new)
    begin, again = len(before.digests), np.zeros(len(digests), dtype=bool)
    earlier = _last_before(digests)
    for first, end in _in_the_same_order(earlier, begin):
        least = _enough(digests[:first])
        if not least or min(end - first, first - int(earlier[first])) < least:
            continue
        again[first:end] = _began_anew(earlier, epochs, first, least) >= fresh
    found[mine] = again[begin:]
    origin[mine] = np.where(again, steps[np.maximum(earlier, 0)], 0)[begin:]
    return found, origin


def _before(process: Process) -> Loaded:
    return process.raw.stretch.loaded if process.raw.stretch is not None else Loaded()


def _joined(before: Loaded, new: Loaded) -> tuple[Ints, Ints, Ints]:
    return (
        np.concatenate([before.digests, new.digests]),
        np.concatenate([before.steps, new.steps]),
        np.concatenate([before.epochs, new.epochs]),
    )


def _of_part(process: Process, training: Ints, before: Loaded) -> Loaded:
    """The batches of what is judged of a process. An iteration over the data ends where no batch follows one of
    training: that of an evaluation in between is another.
    """
    events = process.events
    loads = process.rows_of_type("data")
    ended = (events["flags"][loads] & fmt.RAISED) != 0
    loads, ended = loads[process.judged(loads)], ended[process.judged(loads)]
    trains = np.isin(loads, training)
    ends = ended & np.append(before.open, trains[:-1])[: len(loads)]
    rows = loads[trains]
    epochs = before.epoch + np.cumsum(ends)
    begun = _begun(process, training)
    return Loaded(
        _known_by(process, rows),
        process.numbers[process.window[rows]].astype(np.int64),
        epochs[trains].astype(np.int64),
        int(epochs[-1]) if len(epochs) else before.epoch,
        bool(trains[-1]) if len(trains) else before.open,
        _numbers(process, begun[process.judged(begun)]),
    )


def _known_by(process: Process, rows: Ints) -> Ints:
    """What the batches of these rows are known by."""
    digests, measures = process.events["digest"], process.measures(EXAMPLES)
    order = np.argsort(process.parent_row[measures], kind="stable")
    measures, found = measures[order], digests[rows]
    batches = process.parent_row[measures]
    place = np.searchsorted(batches, rows)
    known = place < len(batches)
    known[known] = batches[place[known]] == rows[known]
    found[known] = digests[measures[place[known]]]
    return found.astype(np.int64)


def _last_before(digests: Ints) -> Ints:
    """For each batch where the same one came last before it; -1 where it is new."""
    order = np.argsort(digests, kind="stable")
    same = np.append(False, digests[order][1:] == digests[order][:-1])
    found = np.full(len(digests), -1, dtype=np.int64)
    found[order[same]] = order[np.flatnonzero(same) - 1]
    return found


def _in_the_same_order(earlier: Ints, begin: int) -> list[tuple[int, int]]:
    """Stretches, each from its first batch up to the one behind its last, that came in the same order before and end
    behind `begin`. Most are too short to say anything: an order that is random has many.
    """
    known = earlier >= 0
    goes_on = np.append(False, known[1:] & known[:-1] & (np.diff(earlier) == 1))
    firsts = np.flatnonzero(known & ~goes_on)
    ends = np.flatnonzero(known & ~np.append(goes_on[1:], False)) + 1
    telling = (ends > begin) & (ends - firsts >= _FEWEST)
    return [*zip(firsts[telling].tolist(), ends[telling].tolist(), strict=True)]


def _enough(digests: Ints) -> int:
    """How many batches in the same order are no chance behind those that were seen; 0 where no number is."""
    different = len(np.unique(digests))
    if different < _FEWEST_DIFFERENT:
        return 0
    return max(_FEWEST, 1 + math.ceil(_CHANCE / (math.log(different) - 1)))


def _began_anew(earlier: Ints, epochs: Ints, until: int, least: int) -> int:
    """How many epochs before have begun with so many batches that had not been seen."""
    begins = np.flatnonzero(np.diff(epochs[:until]) > 0) + 1
    return sum(first + least <= until and bool((earlier[first : first + least] < 0).all()) for first in begins.tolist())
