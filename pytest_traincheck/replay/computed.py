"""One phase of one process of a recording, with lookups: tensors of calls, values of variables and random states over
time.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pytest_traincheck.golden.recording import (
    CHOSEN,
    DRAWN,
    ENTRY,
    EVALUATION,
    GRAD,
    PHASE,
    TRAINING,
    Recording,
    Rows,
)
from pytest_traincheck.replay.fetches import Fetch

INFINITE = math.inf
CENTRED = "centred"
"""Slot of what a softmax weighs: its input, less what it ignores."""
ROWS, PAIRS, ROW = "rows", "pairs", "row"
"""Slots of a batch: hashes of the rows of a tensor, and of the rows of two tensors that stand side by side; one row."""
ASIDE = "seed"
GENERATOR = ("rng", "before", ASIDE)
"""How the slots begin of states of generators; the last one is of states that the seed of a loader's workers left."""


@dataclass(frozen=True)
class Tensor:
    """A sketch as plain numbers."""

    at: int
    dtype: str
    shape: str
    size: int
    negligible: int
    """Elements of a gradient that are next to nothing beside the others."""
    digest: int
    norm: float
    mean: float
    projections: tuple[float, ...]
    index: int
    """Position among the sketches of the recording."""


@dataclass(frozen=True)
class Call:
    """A call as plain values; `index` is its position in the recording, `parent` that of the enclosing call or -1."""

    index: int
    parent: int
    begin: int
    end: int
    window: int
    name: str
    kind: str
    module: str
    optimizer: str
    arguments: str
    autocast: str
    flags: int


class State(NamedTuple):
    """A state of a generator."""

    at: float
    digest: int
    words: int
    """Numbers of 32 bits that were drawn since the state before; 0 where it was set, or nobody knows how many."""
    aside: bool
    """Whether the seed of a loader's workers was drawn, which is no draw of the program's."""


class Move(NamedTuple):
    """A generator went from one state to another."""

    at: float
    before: int
    after: int
    words: int


class Computed:
    """What one process computed, from the beginning or since sketching began again with a later optimizer."""

    def __init__(self, recording: Recording, process: int, phase: int = 0) -> None:
        strings = recording.strings
        begins = [*(begin for begin, _ in phases(recording, process)), INFINITE]
        self.since, self._until = begins[phase : phase + 2]
        self.calls: dict[int, Call] = {}
        self.stepped: frozenset[str] = frozenset()
        """Optimizers that had stepped before, with what state nobody knows."""
        for index, row in _rows(recording.calls, process):
            _, parent, begin, end, window, name, kind, module, optimizer, arguments, autocast, flags = row
            if begin < self.since and strings[kind] == "optimizer":
                self.stepped |= {strings[optimizer]}
            if not self.since <= begin < self._until:
                continue
            parent = parent if parent in self.calls else -1
            self.calls[index] = Call(
                index, parent, begin, end, window, strings[name], strings[kind], strings[module], strings[optimizer],
                strings[arguments], strings[autocast], flags,
            )  # fmt: skip
        self.inputs: dict[int, dict[str, Tensor]] = {}
        self.results: dict[int, dict[str, Tensor]] = {}
        self.scores: dict[int, Tensor] = {}
        """Softmax -> what it weighs."""
        self.hyper: dict[int, tuple[int, int]] = {}
        """Optimizer step -> time after which it works, and hash of its hyper-parameters."""
        self.together: dict[int, dict[str, int]] = {}
        """Batch -> hashes of the rows of its tensors, and of which of them stand side by side."""
        self.single: dict[int, dict[str, Tensor]] = {}
        """Batch -> some rows of its largest tensor, by number and name."""
        self.fetched: dict[int, Fetch] = {}
        """Batch -> how it was made, where that is known."""
        self.values: dict[tuple[str, str], list[Tensor]] = {}
        self.random: dict[str, list[State]] = {}
        self.draws: list[tuple[int, str, int]] = []
        self._read(recording, process)

    def _read(self, recording: Recording, process: int) -> None:
        strings = recording.strings
        for index, row in _rows(recording.sketches, process):
            _, call, at, slot_text, dtype, shape, variable, kind, size, negligible, digest, norm, mean, projections = (
                row
            )
            if not self.since <= at < self._until:
                continue
            slot = strings[slot_text]
            head, _, rest = slot.partition(".")
            if head in GENERATOR:
                # A state that a call found when it began was there before it.
                since = self.calls[call].begin - 0.5 if head == "before" and call in self.calls else at
                self.random.setdefault(rest, []).append(State(since, digest, size, head == ASIDE))
            elif head == "draw":
                self.draws.append((at, rest, size))
            elif head == "hyper":
                self.hyper[call] = at, digest
            elif slot in (CHOSEN, DRAWN):
                known = self.fetched.get(call, Fetch(0, by_worker=bool(size)))
                self.fetched[call] = replace(known, **{"chosen" if slot == CHOSEN else "drawn": digest})
            elif head in (ROWS, PAIRS):
                self.together.setdefault(call, {})[slot] = digest
            else:
                tensor = Tensor(
                    at, strings[dtype], strings[shape], size, negligible, digest, norm, mean, tuple(projections), index
                )
                if head == "var":
                    name = (strings[kind], strings[variable])
                    self.values.setdefault(name, []).append(tensor)
                elif head == CENTRED:
                    self.scores[call] = tensor
                elif head == ROW:
                    self.single.setdefault(call, {})[rest] = tensor
                elif call >= 0:
                    into = self.inputs if head == "in" else self.results
                    into.setdefault(call, {})[slot] = tensor

    @cached_property
    def last(self) -> int:
        """Time of the last sketch."""
        times = [tensors[-1].at for tensors in self.values.values()]
        times += [call.end for call in self.calls.values()]
        return max(times, default=0)

    @cached_property
    def first_look(self) -> int:
        """Time when variables were sketched for the first time, all of them; 0 if they never were."""
        firsts = [tensors[0].at for (kind, _), tensors in self.values.items() if kind in ("parameter", "buffer")]
        return min(firsts, default=0)

    @cached_property
    def begun(self) -> float:
        """Time when the first forward pass of a whole model began, or when variables were first sketched after that;
        0 if they never were.
        """
        entries = [call.begin for call in self.calls.values() if call.flags & ENTRY]
        return max(self.first_look, min(entries) + 0.5) if entries and self.first_look else self.first_look

    @cached_property
    def trained_in_eval(self) -> frozenset[int]:
        """Forward passes of whole models in eval mode that training goes through.

        As `trace.stages` has it: gradients are recorded and arrive in the model, and a backward pass follows before it
        is called so in train mode. An evaluation that forgets `no_grad` is none, nor is a frozen teacher's forward
        pass. Found from what every recording holds, so that older ones say it, too.
        """
        arrive = {name.partition(".")[0] for kind, name in self.values if kind == "gradient"}
        found: set[int] = set()
        waiting: dict[str, list[int]] = {}
        for call in sorted(self.calls.values(), key=lambda call: call.begin):
            if call.kind == "autograd":
                found.update(*waiting.values())
                waiting.clear()
            elif call.kind == "module" and call.flags & ENTRY and call.flags & GRAD:
                root = call.module.partition(".")[0]
                if call.flags & TRAINING:
                    waiting.pop(root, None)
                elif root in arrive:
                    waiting.setdefault(root, []).append(call.index)
        return frozenset(found)

    @cached_property
    def children(self) -> Mapping[int, list[int]]:
        """The calls directly within each call, in order; those outside of every call under -1."""
        found: dict[int, list[int]] = {}
        for call in self.calls.values():
            found.setdefault(call.parent, []).append(call.index)
        return found

    @cached_property
    def moving_buffers(self) -> frozenset[str]:
        """Buffers that change from step to step: statistics, which a module in train mode writes and does not read."""
        return frozenset(
            name
            for (kind, name), tensors in self.values.items()
            if kind == "buffer" and any(not _same(tensor, tensors[0]) for tensor in tensors[1:])
        )

    @cached_property
    def _looks(self) -> list[int]:
        """Times at which variables other than gradients were sketched."""
        return sorted(
            tensor.at
            for (kind, _), tensors in self.values.items()
            if kind in ("parameter", "buffer")
            for tensor in tensors
        )

    def epoch(self, at: float) -> int:
        """A number that is the same for two times between which no variable got a new value."""
        return bisect_right(self._looks, at)

    def inside(self, call: Call) -> float:
        """A time within a call when what it found was noted and nothing had happened in it."""
        children = self.children.get(call.index)
        return self.calls[children[0]].begin if children else call.end

    def below(self, module: str) -> list[tuple[str, str]]:
        """Kind and name of the parameters and buffers of a module and of all modules in it."""
        return self._by_prefix.get(module, [])

    @cached_property
    def _by_prefix(self) -> Mapping[str, list[tuple[str, str]]]:
        found: dict[str, list[tuple[str, str]]] = {}
        for kind, name in self.values:
            if kind in ("parameter", "buffer"):
                prefix = name
                while "." in prefix:
                    prefix = prefix.rpartition(".")[0]
                    found.setdefault(prefix, []).append((kind, name))
        return found

    def value(self, kind: str, name: str, at: float) -> Tensor | None:
        """The last sketch of a variable up to a time."""
        tensors = self.values.get((kind, name))
        if not tensors:
            return None
        place = bisect_right(tensors, at, key=lambda tensor: tensor.at)
        return tensors[place - 1] if place else None

    def drawn(
        self, after: float, until: float, *, fetched: bool = True
    ) -> tuple[tuple[tuple[str, int], ...], Mapping[str, tuple[Move, ...]]]:
        """What was drawn in an interval: the calls that drew with how many numbers, and how each generator moved that
        did. Without `fetched`, what was drawn to make a loader's batches is left out.
        """
        low = bisect_right(self.draws, after, key=lambda draw: draw[0])
        high = bisect_right(self.draws, until, key=lambda draw: draw[0])
        draws = [
            (name, size) for at, name, size in self.draws[low:high] if size and (fetched or not self._fetching(at))
        ]
        moved = {name: self.moves(name, after, until, fetched=fetched) for name in self.random}
        return tuple(draws), {name: found for name, found in moved.items() if found}

    def moves(self, generator: str, after: float, until: float, *, fetched: bool = True) -> tuple[Move, ...]:
        """How a generator moved in an interval; the first state of all is what was found, and no move."""
        states = self.random.get(generator, [])
        begin = bisect_left(states, after, key=lambda state: state.at)
        end = bisect_right(states, until, key=lambda state: state.at)
        return tuple(
            Move(state.at, states[place - 1].digest, state.digest, state.words)
            for place, state in enumerate(states[max(begin, 1) : end], start=max(begin, 1))
            if not state.aside and (fetched or not self._fetching(state.at))
        )

    def _fetching(self, at: float) -> bool:
        """Whether a batch is being made."""
        begins, ends = self._batches
        place = bisect_right(begins, at) - 1
        return place >= 0 and at <= ends[place]

    @cached_property
    def _batches(self) -> tuple[list[int], list[int]]:
        """When the batches of loaders were begun and done."""
        calls = sorted((call.begin, call.end) for call in self.calls.values() if call.kind == "data")
        return [begin for begin, _ in calls], [end for _, end in calls]


_PARALLEL = 1e-3
"""How far, of their size, changes may be from those of golden times one number."""


def phases(recording: Recording, process: int) -> list[tuple[float, str]]:
    """When each phase of sketching began in a process, and its kind: `PHASE`, or `EVALUATION`."""
    sketches = recording.sketches
    marks = {recording.strings.index(kind): kind for kind in (PHASE, EVALUATION) if kind in recording.strings}
    mine = (sketches["process"] == process) & np.isin(sketches["slot"], list(marks))
    found = zip(sketches["at"][mine].tolist(), sketches["slot"][mine].tolist(), strict=True)
    return [(0.0, PHASE), *((float(at), marks[slot]) for at, slot in found)]


def of_training(recording: Recording, process: int, phase: int) -> bool:
    """Whether a phase is one of training."""
    return phases(recording, process)[phase][1] == PHASE


def paired_phases(one: Recording, other: Recording, process: int) -> list[tuple[int, int]]:
    """Numbers of the phases of two recordings that are compared: the first of one kind with the first, and so on."""
    found = []
    for kind in (PHASE, EVALUATION):
        ours, theirs = (
            [number for number, (_, which) in enumerate(phases(recording, process)) if which == kind]
            for recording in (one, other)
        )
        found += list(zip(ours, theirs, strict=False))
    return found


def _rows(table: Rows, process: int) -> Iterator[tuple[int, Any]]:
    """Position and plain values of the rows of one process, in the order of the columns."""
    positions = np.flatnonzero(table["process"] == process)
    return zip(positions.tolist(), table[positions].tolist(), strict=True)


def _same(first: Tensor, second: Tensor) -> bool:
    """Whether two sketches are the same to the last bit."""
    return (first.digest, first.norm, first.mean, first.projections) == (
        second.digest, second.norm, second.mean, second.projections,
    )  # fmt: skip


def apart(golden: Tensor, candidate: Tensor) -> float:
    """Relative distance of two tensors, estimated by their sketches; infinite where they cannot be the same."""
    if golden.shape != candidate.shape or golden.size != candidate.size:
        return INFINITE
    if _same(golden, candidate):
        return 0.0
    if golden.digest != candidate.digest:
        return INFINITE  # other whole numbers, or other elements are masked
    numbers = (golden.norm, candidate.norm, *golden.projections, *candidate.projections)
    if not all(map(math.isfinite, numbers)):
        return 0.0 if not math.isfinite(golden.norm) and not math.isfinite(candidate.norm) else INFINITE
    difference = _root_mean_square(golden.projections, candidate.projections)
    difference = max(
        difference,
        abs(golden.norm - candidate.norm),
        abs(golden.mean - candidate.mean) * math.sqrt(golden.size),
    )
    return difference / golden.norm if golden.norm else INFINITE


def are_other_parts(golden: Tensor, candidate: Tensor) -> bool:
    """Whether these are different parts of one tensor, as where a rank holds all of what it held a shard of."""
    return golden.shape == candidate.shape and golden.size != candidate.size


def moved_apart(before: tuple[Tensor, Tensor], after: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """How far two changes of a variable are apart, relative to golden's, and golden's change relative to its value.

    Each pair is (golden, candidate). Projections are linear, so that of a change is a difference.
    """
    change = [late - early for late, early in zip(after[0].projections, before[0].projections, strict=True)]
    other = [late - early for late, early in zip(after[1].projections, before[1].projections, strict=True)]
    size = math.sqrt(sum(value * value for value in change) / len(change))
    difference = _root_mean_square(change, other)
    if not difference:
        return 0.0, size / (after[0].norm or 1.0)
    if not math.isfinite(difference) or not size:
        return INFINITE, size / (after[0].norm or 1.0)
    return difference / size, size / (after[0].norm or 1.0)


def times(changes: Sequence[tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]]) -> float | None:
    """The number that golden's changes are to be multiplied by to give the candidate's; `None` where there is none.

    Each change is the values before and after it; each pair is (golden, candidate).
    """
    ours, theirs = (
        [
            late - early
            for before, after in changes
            for late, early in zip(after[side].projections, before[side].projections, strict=True)
        ]
        for side in (0, 1)
    )
    size, common = sum(a * a for a in ours), sum(a * b for a, b in zip(ours, theirs, strict=True))
    if not size or not math.isfinite(size) or not math.isfinite(common) or common <= 0:
        return None
    factor = common / size
    rest = sum((b - factor * a) ** 2 for a, b in zip(ours, theirs, strict=True))
    return factor if math.sqrt(rest) <= _PARALLEL * factor * math.sqrt(size) else None


def _root_mean_square(first: Any, second: Any) -> float:
    total = sum((one - two) ** 2 for one, two in zip(first, second, strict=True))
    return math.sqrt(total / len(first))
