"""Data: new in each step, in another order in each epoch, augmented otherwise by each worker.

A sampler that is never told the epoch, workers that all begin with one seed, a batch that is read once and used for
ever: the model sees less than there is, and nothing looks wrong.
"""

from __future__ import annotations

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples
from pytest_traincheck.relations.distinct import INPUT, STREAMS, Differs, Distinct, Thing, before_training
from pytest_traincheck.relations.laws.law import Law, Told, each_process, in_step, seen, table, transferable
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Place
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.stages import EVAL, TRAIN

_DATA = "https://docs.pytorch.org/docs/stable/data.html"
_WORKERS = f"{_DATA}#data-loading-randomness"
_SAMPLER = f"{_DATA}#torch.utils.data.distributed.DistributedSampler"
_STREAMS: dict[Thing, str] = {
    "rng.torch": "torch's generator", "rng.numpy": "numpy's generator", "rng.python": "Python's generator",
    "rng.cuda": "the GPU's generator", "rng.dataset": "the generators of the data set",
}  # fmt: skip


class WorkersDiffer(Law):
    """Workers of a loader draw the same random numbers."""

    name = "WorkersDiffer"
    subject = "torch.utils.data.DataLoader"
    says = "Workers of a DataLoader that draw random numbers draw different ones"
    expected = "each worker has a random stream of its own"
    because = Reason(
        "workers-draw-alike",
        "Generators that workers inherit, or that each seeds alike, give all of them the same augmentations: the data "
        "varies by as many times less as there are workers.",
        _WORKERS,
        "Seed generators of data sets in `worker_init_fn` from `torch.initial_seed()`.",
        "Draws that are to be the same for all examples.",
    )
    right = "def seed_worker(_):\n    dataset().rng = np.random.default_rng(torch.initial_seed() % 2**32)"
    wrong = "self.rng = np.random.default_rng(0)  # in the data set, copied into each worker"
    place = Place.DATA

    def places(self, run: Run) -> Examples:
        return _streams(run, "workers")

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told(f"Workers of a DataLoader begin with the same state of {seen(examples, broken[0])}, and draw the "
                    "same numbers.", "workers draw the same numbers")  # fmt: skip


class EpochsDiffer(Law):
    """Workers of a loader draw the same random numbers in each epoch."""

    name = "EpochsDiffer"
    subject = "torch.utils.data.DataLoader"
    says = "Workers of a DataLoader that draw random numbers draw others in each epoch"
    expected = "random streams go on from epoch to epoch"
    because = Reason(
        "epochs-draw-alike",
        "Workers that are started for each epoch and seeded by their number alone repeat the augmentations of the "
        "first epoch in all others.",
        _WORKERS,
        "Seed from `torch.initial_seed()`, which differs from epoch to epoch, and not from the worker's number.",
        "Augmentations that are fixed on purpose, to be able to repeat an epoch.",
    )
    right = "def seed_worker(number):\n    np.random.seed(torch.initial_seed() % 2**32)"
    wrong = "def seed_worker(number):\n    np.random.seed(number)"
    place = Place.DATA

    def places(self, run: Run) -> Examples:
        return _streams(run, "epochs")

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told(f"Workers of a DataLoader begin each epoch with the same state of {seen(examples, broken[0])}.",
                    "workers draw the same numbers in each epoch")  # fmt: skip


class OrderDiffers(Law):
    """Shuffled data comes in the same order in each epoch."""

    name = "OrderDiffers"
    subject = "torch.utils.data.distributed.DistributedSampler.set_epoch"
    says = "Shuffled training data comes in another order in each epoch"
    expected = "another order in each epoch"
    because = Reason(
        "same-order-in-each-epoch",
        "A `DistributedSampler` shuffles by its seed and the epoch that it was given. Without `set_epoch` each epoch "
        "has the order of the first, and so has a loader whose generator is seeded again.",
        _SAMPLER,
        "Call `sampler.set_epoch(epoch)` before each epoch.",
        "An order that is fixed on purpose.",
    )
    right = "for epoch in range(epochs):\n    sampler.set_epoch(epoch)\n    for batch in loader: ..."
    wrong = "for epoch in range(epochs):\n    for batch in loader: ..."
    place = Place.DATA

    def places(self, run: Run) -> Examples:
        return each_process(run, _orders)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told("The loader that shuffles yields the same batches in the same order as in the epoch before: "
                    "`set_epoch` is missing, or a seed is set again.", "the same order in each epoch")  # fmt: skip


class Shuffles(Law):
    """Training data comes in the order of the data set."""

    name = "Shuffles"
    subject = "torch.utils.data.DataLoader"
    says = "A DataLoader for training draws its examples in random order"
    expected = "training data is shuffled"
    because = Reason(
        "training-data-in-order",
        "Batches in the order of the data set are alike within and differ from each other, where the set is sorted by "
        "class or time: gradients point now here, now there, and BatchNorm sees one class at a time.",
        f"{_DATA}#torch.utils.data.DataLoader",
        "Pass `shuffle=True`.",
        "Data that is shuffled already, or of which the order matters.",
    )
    right = "loader = DataLoader(train_set, batch_size=32, shuffle=True)"
    wrong = "loader = DataLoader(train_set, batch_size=32)"
    place = Place.DATA

    def places(self, run: Run) -> Examples:
        return each_process(run, _shuffled)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told("Training goes through the data in the order of the data set.", "training data is not shuffled")


class EvaluationInOrder(Law):
    """Evaluation data is shuffled."""

    name = "EvaluationInOrder"
    subject = "torch.utils.data.DataLoader"
    says = "A DataLoader for evaluation goes through its examples in order"
    expected = "evaluation data comes in order"
    because = Reason(
        "evaluation-data-shuffled",
        "An evaluation that draws its examples in random order looks at others each time where it is cut short, and "
        "takes numbers from the generator of the training.",
        remedy="Leave out `shuffle=True` for validation and test data.",
        meant="A sample of a large validation set.",
    )
    right = "loader = DataLoader(valid_set, batch_size=32)"
    wrong = "loader = DataLoader(valid_set, batch_size=32, shuffle=True)"
    place = Place.DATA

    def places(self, run: Run) -> Examples:
        return each_process(run, _evaluation_order)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told("Evaluation draws its examples in random order.", "evaluation data is shuffled")


class NewBatches(Law):
    """The model is trained on one batch again and again, though a loader has more."""

    name = "NewBatches"
    subject = "torch.utils.data.DataLoader"
    says = "A model that is trained with a DataLoader is given different batches in different steps"
    expected = "other data in each step"
    because = Reason(
        "same-batch-in-each-step",
        "A loop that asks a new iterator for its first batch in each step, or goes on with the batch of the first one, "
        "trains on a handful of examples.",
        remedy="Make the iterator once per epoch: `for batch in loader:`.",
        meant="A test whether the model can learn one batch by heart.",
    )
    right = "for batch in loader:\n    step(batch)"
    wrong = "for _ in range(steps):\n    step(next(iter(loader)))  # without shuffling the same each time"
    place = Place.DATA

    def places(self, run: Run) -> Examples:
        return each_process(run, _batches)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told(f"The DataLoader gives the same batch as before, first {in_step(run, examples, broken)}, "
                    "and in most steps.", "the same batch in most steps")  # fmt: skip


def _streams(run: Run, between: str) -> Examples:
    """The workers of all loaders that training batches came from, with the generator that they are compared by.

    Of a stream nothing is said: its workers may have to shuffle alike, for each to take another part.
    """
    of_training = run.memo("workers of training", lambda: _of_training(run))
    workers = Run(run.path, run.processes, of_training, run.others)
    parts = []
    for number, what in enumerate(STREAMS):
        claim = Differs(what, "workers") if between == "workers" else Differs(what, "epochs")
        if not any(_moves(worker, what) for worker in of_training):
            continue
        examples = transferable(Distinct().examples(claim, workers))
        codes = np.full(len(examples), number)
        observed = Labels.of(codes, [_STREAMS[stream] for stream in STREAMS])
        parts.append(Examples(examples.holds, examples.process, examples.row, examples.variable, {}, observed))
    return Examples.concatenate(parts)


def _of_training(run: Run) -> tuple[Process, ...]:
    """The workers that were asked for examples by their numbers, and made a batch that a model was trained with."""
    makers: list[Ints] = []
    for process in run.processes:
        measures = process.measures("batch.maker")
        loads = process.parent_row[measures]
        makers.append(process.events["digest"][measures[before_training(process, loads)]])
    used = np.concatenate(makers) if makers else np.empty(0, dtype=np.int64)
    return tuple(worker for worker in run.workers if _made(worker, used))


def _made(worker: Process, used: Ints) -> bool:
    """Whether any of these fetches are those of a worker that takes examples by their numbers."""
    asked = worker.events["parent"][worker.measures("fetch.chosen")]
    fetches = worker.measures("fetch")
    fetches = fetches[np.isin(worker.events["parent"][fetches], asked)]
    return bool(np.isin(worker.events["digest"][fetches], used).any())


def _moves(worker: Process, what: Thing) -> bool:
    """Whether fetches of a worker drew from a generator."""
    return bool((worker.events["value"][worker.measures(what.replace("rng.", "fetch."))] > 0).any())


def _passes(process: Process, rows: Ints) -> list[Ints]:
    """The loads of batches in pieces, each up to the end of an iteration over a loader."""
    ended = np.flatnonzero((process.events["flags"][rows] & fmt.RAISED) != 0)
    return [part for part in np.split(rows, ended + 1) if len(part) > 1]


def _measured(process: Process, name: str) -> dict[int, float]:
    """The value of a measure of a load of a batch, by the load's row."""
    rows = process.measures(name)
    parents = process.parent_row[rows].tolist()
    return dict(zip(parents, process.events["value"][rows].tolist(), strict=True))


def _loads(process: Process) -> tuple[Ints, Bools]:
    rows = process.rows_of_type("data")
    rows = rows[~process.inside("function")[rows]]
    return rows, before_training(process, rows)


def _orders(process: Process, position: int) -> Examples:
    """One example for each pass over shuffled training data but the first: whether some batch of it is another one than
    that at the same place of the pass before.
    """
    rows, _ = _loads(process)
    shuffled = _measured(process, "batch.shuffled")
    chosen = dict(zip(process.parent_row[process.measures("batch.chosen")].tolist(),
              process.events["digest"][process.measures("batch.chosen")].tolist(), strict=True))  # fmt: skip
    holds, places = [], []
    for line in np.unique(process.events["src"][rows]).tolist():
        previous: list[int] = []
        for part in _passes(process, rows[process.events["src"][rows] == line]):
            first = int(part[0])
            if shuffled.get(first) != 1.0 or process.stage[first] == EVAL:
                continue
            keys = [chosen.get(row, int(process.events["digest"][row])) for row in part.tolist()]
            keys = [key for key in keys if key]
            width = min(len(keys), len(previous))
            if width > 1:
                holds.append(keys[:width] != previous[:width])
                places.append(first)
            previous = keys
    return table(process, position, holds, places) if places else EMPTY


def _shuffled(process: Process, position: int) -> Examples:
    """One example for a process: whether any loader that it trains with draws its examples in random order. A single
    batch has no order.
    """
    rows, training = _loads(process)
    rows = rows[training]
    ended = (process.events["flags"][rows] & fmt.RAISED) != 0
    follows = np.zeros(len(rows), dtype=bool)
    for line in np.unique(process.events["src"][rows]).tolist():
        mine = np.flatnonzero(process.events["src"][rows] == line)
        follows[mine] = (~ended[mine][1:] & ~ended[mine][:-1]).any()
    found = _by_line(process, rows[follows])
    if not found:
        return EMPTY
    row = next((row for row, shuffles in found.items() if not shuffles), next(iter(found)))
    return table(process, position, [any(found.values())], [row])


def _evaluation_order(process: Process, position: int) -> Examples:
    """One example for each line that loads batches for evaluation."""
    rows, training = _loads(process)
    entries = process.entry_rows
    following = np.searchsorted(entries, rows)
    evaluates = following < len(entries)
    evaluates[evaluates] = process.stage[entries[following[evaluates]]] == EVAL
    evaluates &= ~_trained_with(process, rows, entries)
    found = _by_line(process, rows[evaluates & ~training])
    return table(process, position, [not shuffles for shuffles in found.values()], list(found)) if found else EMPTY


def _trained_with(process: Process, rows: Ints, entries: Ints) -> Bools:
    """Which loads belong to lines whose batches are asked about first and trained with then, as those that a model
    labels itself: a training call follows before the line loads the next one, more often than not.
    """
    lines, training = process.events["src"][rows], entries[process.stage[entries] == TRAIN]
    found = np.zeros(len(rows), dtype=bool)
    for line in np.unique(lines).tolist():
        mine = np.flatnonzero(lines == line)
        ends = np.append(rows[mine][1:], _EVER)
        found[mine] = 2 * (np.searchsorted(training, ends) > np.searchsorted(training, rows[mine])).sum() > len(mine)
    return found


_EVER = np.iinfo(np.int64).max


def _by_line(process: Process, rows: Ints) -> dict[int, bool]:
    """Whether the loads of batches at each line are in random order, where that is known; by the first of them."""
    shuffled = _measured(process, "batch.shuffled")
    known = [row for row in rows.tolist() if row in shuffled]
    first = {int(process.events["src"][row]): row for row in reversed(known)}
    return {row: shuffled[row] == 1.0 for row in first.values()}


def _batches(process: Process, position: int) -> Examples:
    """One example for a process that loads batches in four training steps or more."""
    rows, training = _loads(process)
    rows = rows[training & (process.events["digest"][rows] != 0)]
    windows = process.window[rows]
    if len(np.unique(windows)) < 4:
        return EMPTY
    digests = process.events["digest"][rows]
    inputs = process.measures(INPUT)
    given = process.events["digest"][inputs]
    enough = len(np.unique(digests)) > len(np.unique(windows)) // 2
    if len(inputs) > 3:
        enough |= len(np.unique(given)) > len(inputs) // 2
    return table(process, position, [bool(enough)], rows[1:2])
