"""Distinct: batches and random streams differ between steps, ranks, workers and epochs, or are the same on purpose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

import numpy as np

from pytest_traincheck.looks import LATER, SKETCHES, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.begun_again import begins_again, drawn_at_random, loaded_again
from pytest_traincheck.relations.context import module_roots, rank_label
from pytest_traincheck.relations.generators import STATES, drawn_from
from pytest_traincheck.relations.meaning import Change, Meaning, Place
from pytest_traincheck.relations.order_again import EPOCH, EXAMPLES, comes_again, noted
from pytest_traincheck.relations.workers import workers_of
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.side_by_side import side_by_side
from pytest_traincheck.trace.stages import TRAIN
from pytest_traincheck.trace.stretch import Loaded

INPUT: Final = "model.input"
LATER_INPUT: Final = "later.input"
"""The same behind the steps that are measured."""
LOADED: Final = "loaded"
REPEATED = "batch.repeated"
_WHOLE = "are "
"""How a text begins that says all that was seen, and not only when."""
Thing = Literal[
    "model.input", "loaded", "batch.examples", "rng.torch", "rng.numpy", "rng.python", "rng.cuda", "rng.dataset"
]
STREAMS: tuple[Thing, ...] = (*STATES, "rng.dataset")
_STEPWISE: tuple[Thing, ...] = (INPUT, LOADED, EXAMPLES, *STATES)
_RANKWISE: tuple[Thing, ...] = (INPUT, *STATES)

THINGS: Mapping[Thing, str] = {
    INPUT: "the inputs of the model",
    LOADED: "the batches of the DataLoader",
    EXAMPLES: "the examples that are drawn for a batch",
    "rng.torch": "torch's random state",
    "rng.numpy": "numpy's random state",
    "rng.python": "Python's random state",
    "rng.cuda": "the GPU's random state",
    "rng.dataset": "the random generators of the dataset",
}
SUBJECTS: Mapping[Thing, str] = {
    INPUT: "torch.utils.data.DataLoader",
    LOADED: "torch.utils.data.DataLoader",
    EXAMPLES: "torch.utils.data.DataLoader",
    "rng.torch": "torch.manual_seed",
    "rng.numpy": "numpy.random",
    "rng.python": "random",
    "rng.cuda": "torch.cuda.manual_seed",
    "rng.dataset": "torch.utils.data.Dataset",
}


@dataclass(frozen=True)
class Differs(Claim):
    """A thing differs between training steps, between the workers of a DataLoader, or between their epochs."""

    of: Thing
    between: Literal["steps", "workers", "epochs"]


@dataclass(frozen=True)
class BetweenRanks(Claim):
    """A thing differs between ranks, or is the same on all of them."""

    of: Thing
    between: Literal["ranks"] = field(default="ranks", init=False)
    equal: bool = False


@dataclass(frozen=True)
class WithinBatch(Claim):
    """The tensors of a batch differ."""

    of: Literal["loaded"] = field(default=LOADED, init=False)
    between: Literal["tensors"] = field(default="tensors", init=False)


class Distinct:
    """Training inputs and random streams are pairwise different, between training steps, between ranks, between the
    workers of a DataLoader and between its epochs; across ranks they may also always be the same.

    Two things are the same when their content hashes are.
    """

    name = "Distinct"
    looks: ClassVar[Looks] = frozenset({LATER, SKETCHES})
    claims: ClassVar[tuple[type[Claim], ...]] = (Differs, BetweenRanks, WithinBatch)

    def layer(self, claim: Differs | BetweenRanks | WithinBatch) -> int:
        # A generator also stands still where a model that is put into eval mode draws no more.
        return 4 if _of_generator(claim) else 1

    def meaning(self, rule: Invariant[Differs | BetweenRanks | WithinBatch]) -> Meaning:
        # A stream of random numbers does not come of the order of the data.
        of_data = rule.claim.between == "steps" and rule.claim.of not in STATES
        return Meaning(Place.DATA, comes_with=frozenset({Change.WINDOWS} | ({Change.ORDER} if of_data else set())))

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for what in _STEPWISE:
            # Training on all data at once is as right as training on batches; which it is belongs to a pipeline.
            yield Hypothesis(self.name, SUBJECTS[what], Differs(what, "steps"), scope=Scope.PINNED)
        if any(len(process.measures(REPEATED)) for process in run.processes):
            yield Hypothesis(self.name, SUBJECTS[LOADED], WithinBatch(), scope=Scope.PINNED)
        if run.peers:
            for what in _RANKWISE:
                yield Hypothesis(self.name, SUBJECTS[what], BetweenRanks(what))
                yield Hypothesis(self.name, SUBJECTS[what], BetweenRanks(what, equal=True))
        if run.workers:
            for what in STREAMS:
                yield Hypothesis(self.name, SUBJECTS[LOADED], Differs(what, "workers"))
                yield Hypothesis(self.name, SUBJECTS[LOADED], Differs(what, "epochs"))

    def examples(self, claim: Differs | BetweenRanks | WithinBatch, run: Run) -> Examples:
        what = claim.of
        if isinstance(claim, WithinBatch):
            return Examples.concatenate([_within_batches(run, number) for number in range(len(run.processes))])
        if claim.between == "steps":
            parts = [_between_steps(process, number, what) for number, process in enumerate(run.processes)]
            return Examples.concatenate(parts)
        if isinstance(claim, BetweenRanks):
            return Examples.concatenate([_between_ranks(run, peers, what, claim.equal) for peers in run.peers])
        return _between_workers(run, what, claim.between)

    def sentence(self, claim: Differs | BetweenRanks | WithinBatch, subject: str, when: str) -> str:
        thing = THINGS[claim.of]
        if isinstance(claim, WithinBatch):
            return f"No two tensors of a batch have the same content{when}."
        verb = "are the same on all ranks" if _is_equal(claim) else f"differ between {_places(claim)}"
        return f"{thing[0].upper()}{thing[1:]} {_singular(thing, verb)}{when}."

    def finding(
        self, invariant: Invariant[Differs | BetweenRanks | WithinBatch], run: Run, examples: Examples, broken: Ints
    ) -> Finding:
        claim = invariant.claim
        thing = THINGS[claim.of]
        if isinstance(claim, WithinBatch):
            return Finding(
                "In the golden run no two tensors of a batch had the same content; in the candidate some do: two "
                "views, or inputs and targets, are the same.",
                "no two tensors are the same",
                "some tensors are the same",
            )
        seen = examples.observed[int(broken[0])] if examples.observed is not None else ""
        same = seen if seen.startswith(_WHOLE) else f"are the same{seen}"
        differ = f"differ between {_places(claim)}"
        if _is_equal(claim):
            differ, same = same + " on all ranks", differ
        if _of_generator(claim):
            same += ": the same numbers are drawn again, or none"
        golden, now = _singular(thing, differ), _singular(thing, same)
        return Finding(f"In the golden run {thing} {golden}; in the candidate {'it' if _one(thing) else 'they'} {now}.",
                       golden, now)  # fmt: skip


def _is_equal(claim: Differs | BetweenRanks | WithinBatch) -> bool:
    return isinstance(claim, BetweenRanks) and claim.equal


def _of_generator(claim: Differs | BetweenRanks | WithinBatch) -> bool:
    return claim.of in STATES and claim.between == "steps"


def _one(thing: str) -> bool:
    return "random state" in thing


def _places(claim: Differs | BetweenRanks | WithinBatch) -> str:
    return {
        "steps": "training steps",
        "tensors": "the tensors of each",
        "ranks": "ranks",
        "workers": "the workers of a DataLoader",
        "epochs": "epochs of a DataLoader worker",
    }[claim.between]


def _singular(thing: str, text: str) -> str:
    """The verb for things of which there is one."""
    if not _one(thing):
        return text
    return text.replace("are the same", "is the same").replace("differ between", "differs between")


def _digests(process: Process, what: str) -> tuple[Ints, Ints]:
    """Rows and hashes (as signed 64-bit integers) of training inputs or random states, in order."""
    if what == LOADED:
        rows = process.rows_of_type("data")
        rows = rows[before_training(process, rows) & (process.events["digest"][rows] != 0)]
    elif what == EXAMPLES:
        rows = process.measures(what)
        # Where some may come again before all have come, those of a small batch do so by chance.
        rows = rows[before_training(process, rows) & (process.events["value"][rows] == 1)]
    else:
        rows = process.measures(what)
        if what == INPUT:
            rows = np.concatenate([rows, process.measures(LATER_INPUT)])  # which begin where the others end
        # What is called without inputs, such as a module around one parameter, is given the same nothing every time.
        rows = rows[process.events["digest"][rows] != fmt.NO_CONTENT]
    return rows, process.events["digest"][rows].astype(np.int64)


def batches_noted(process: Process) -> Loaded:
    """What is remembered of the batches of a training when the steps that a process has are let go of."""
    return noted(process, training_batches(process))


def training_batches(process: Process) -> Ints:
    """The rows of batches for training, in order."""
    return _digests(process, LOADED)[0]


def before_training(process: Process, rows: Ints) -> Bools:
    """Which batches are for training: the next model that is called after them trains."""
    entries = process.entry_rows
    following = np.searchsorted(entries, rows)
    trains = following < len(entries)
    trains[trains] = process.stage[entries[following[trains]]] == TRAIN
    return np.asarray(trains, dtype=bool)


def _between_steps(process: Process, position: int, what: str) -> Examples:
    rows, digests = _digests(process, what)
    if len(rows) < 2 or (what in STATES and what not in drawn_from(process)):
        return EMPTY
    roots = module_roots(process)[process.events["mod"][rows]] if what == INPUT else np.zeros(len(rows), dtype=np.int64)
    keys = np.stack([roots, digests], axis=1)
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    original = first[inverse.reshape(-1)]
    new = original == np.arange(len(rows))
    # Within one step the same batch may go through the model more than once.
    new |= process.window[rows] == process.window[rows[original]]
    new |= _in_a_later_epoch(process, rows, rows[original], what)
    texts = ["", *(f" as in step {step}" for step in range(process.windows + 1))]
    hint = "see `set_epoch`" if _by_epoch(process) else "is a generator seeded again?"
    texts += [f"{text}, an epoch earlier: the data is not shuffled again ({hint})" for text in texts[1:]]
    codes = np.where(new, 0, process.window[rows[original]] + 1)
    if what not in STATES:
        codes += np.where(~new & _epoch_between(process, rows[original], rows), process.windows + 1, 0)
    if what == LOADED:
        again, steps = comes_again(process, rows)
        known, place = np.unique(steps[again], return_inverse=True)
        codes[again] = len(texts) + place
        what_is = "made of the same examples" if len(process.measures(EXAMPLES)) else "the same"
        texts += [f"{_WHOLE}{what_is}, in the same order, as from step {step} on ({hint})" for step in known.tolist()]
        new &= ~again
    return Examples(
        np.asarray(new, dtype=bool),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {
            "rank": rank_label(process, len(rows)),
            "root": Labels.of(roots, process.names.roots),
        },
        Labels.of(codes, texts),
    )


def _in_a_later_epoch(process: Process, rows: Ints, original: Ints, what: str) -> Bools:
    """Of later steps than golden has, and inputs behind the steps that are measured: which of them do not follow the
    one whose batch they repeat. Golden may not have come to the end of its data, of which the second pass goes through
    the same batches where nothing is shuffled, and a small batch may end one pass and begin the next by chance. Nor
    does a process train on what it loads to get behind the batches of the steps before.
    """
    numbers, stretch = process.numbers[process.window], process.raw.stretch
    later = np.isin(rows, process.measures(LATER_INPUT))
    if stretch is not None:
        later |= numbers[rows] >= stretch.head
    follows = numbers[rows] - numbers[original] <= 1
    if what not in STATES:
        follows &= ~_epoch_between(process, original, rows)
    if what in (LOADED, EXAMPLES):
        follows &= ~loaded_again(process, rows)
    return np.asarray(later & ~follows & ~begins_again(process, rows, original, batches=what not in STATES))


def _by_epoch(process: Process) -> bool:
    """Whether data may be shuffled by the number of an epoch: where it is not known to be in random order otherwise."""
    return bool(len(process.measures(EPOCH))) or not drawn_at_random(process)


def _epoch_between(process: Process, earlier: Ints, later: Ints) -> Bools:
    """Whether an iteration over a DataLoader came to its end between two rows."""
    loads = process.rows_of_type("data")
    ends = loads[(process.events["flags"][loads] & fmt.RAISED) != 0]
    return np.asarray(np.searchsorted(ends, later) > np.searchsorted(ends, earlier))


def _between_ranks(run: Run, peers: tuple[int, ...], what: str, equal: bool) -> Examples:
    beside = side_by_side(run, peers)
    columns = []
    for place, position in enumerate(peers):
        found, digests = _digests(run.processes[position], what)
        kept = beside.together(place, run.processes[position].events["seq"][found].astype(np.int64))
        columns.append((found[kept], digests[kept]))
    count = min(len(rows) for rows, _ in columns)
    if not count:
        return EMPTY
    table = np.stack([digests[:count] for _, digests in columns])
    distinct = np.array([len(set(column)) for column in table.T.tolist()])
    holds = distinct == 1 if equal else distinct == len(peers)
    first = run.processes[peers[0]]
    rows = columns[0][0][:count]
    return Examples(
        np.asarray(holds, dtype=bool),
        np.full(count, peers[0]),
        rows,
        np.zeros(count, dtype=np.int64),
        {"root": Labels.of(module_roots(first)[first.events["mod"][rows]], first.names.roots)},
        Labels.constant("", count),
    )


def _between_workers(run: Run, what: str, between: str) -> Examples:
    """One example for each worker: its streams against those of its siblings, or of its predecessors."""
    families: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for worker in workers_of(run):
        begun = worker.process.measures(what)
        if len(begun):
            family = (worker.parent, worker.iterator if between == "workers" else worker.number)
            families.setdefault(family, []).append((int(worker.process.events["digest"][begun[0]]), worker.row))
    found: list[tuple[bool, int, int]] = []
    for (parent, _), members in families.items():
        times, known = Counter(state for state, _ in members), set[int]()
        for state, row in members:
            # Siblings are alike, both of them; of two epochs the later one repeats the other.
            differs = times[state] == 1 if between == "workers" else state not in known
            known.add(state)
            # Of those that began in other steps only the states are of interest.
            found += [(differs, parent, row)] if len(members) > 1 and row >= 0 else []
    if not found:
        return EMPTY
    holds, process, rows = zip(*found, strict=True)
    nothing = np.zeros(len(rows), dtype=np.int64)
    return Examples(
        np.array(holds, dtype=bool), np.array(process), np.array(rows, dtype=np.int64), nothing, {},
        Labels.constant("", len(rows)),
    )  # fmt: skip


def _within_batches(run: Run, position: int) -> Examples:
    """One example for each batch: whether a tensor in it has the content of another."""
    process = run.processes[position]
    rows = process.measures(REPEATED)
    if not len(rows):
        return EMPTY
    nothing = np.zeros(len(rows), dtype=np.int64)
    return Examples(
        np.asarray(process.events["value"][rows] == 0),
        np.full(len(rows), position),
        rows,
        nothing,
        {"rank": rank_label(process, len(rows))},
        Labels.constant("", len(rows)),
    )
