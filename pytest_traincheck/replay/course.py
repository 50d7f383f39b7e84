"""The course of a run: what every parameter, buffer and learning rate went through, step by step."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_traincheck.golden.course import Course, Rates
from pytest_traincheck.optimizer_label import BY_HAND
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints
from pytest_traincheck.trace.variables import Variables

_RESULT = "evaluated.result"


@dataclass(frozen=True)
class _Values:
    """Of one tensor: numbers of steps, digests before them, digests after them."""

    steps: Ints
    before: npt.NDArray[np.uint64]
    after: npt.NDArray[np.uint64]

    @property
    def moved(self) -> Ints:
        """The steps that left it with another value."""
        moved: Ints = self.steps[self.before != self.after]
        return moved


def courses(run: Run) -> tuple[Course, ...]:
    """One course for each training process; none where something that is trained was not seen in every step."""
    return run.memo("courses", lambda: _courses(run))


def _courses(run: Run) -> tuple[Course, ...]:
    found = [_course(process) for process in run.processes]
    complete = tuple(course for course in found if course is not None)
    return complete if len(complete) == len(found) else ()


def _course(process: Process) -> Course | None:
    if not process.steps:
        return None
    held = _held(process)
    if held is None:
        return None
    variables = Variables.of(process)
    moved = {number: steps for number, values in held.items() if len(steps := values.moved)}
    trained = {
        number: values for number, values in held.items() if number in moved or _trainable(process, number, values)
    }
    rates = _rates(process, {number: moved.get(number) for number in trained})
    if rates is None:
        return None
    others = np.setdiff1d(variables.ids("parameter"), np.array(sorted(held), dtype=np.int64))
    return Course(
        steps=len(process.steps),
        trained=tuple(sorted(_hash(_taken(values)) for values in trained.values())),
        idle=len(trained.keys() - moved.keys()),
        rates=rates,
        copies=tuple(sorted(_moving(process, others))),
        buffers=tuple(sorted(_moving(process, variables.ids("buffer")))),
        effective=tuple(sorted(_effective(process))),
        values=_hash([*sorted(_histories(process))]),
        resting=len(moved) < len(held),
        evaluated=tuple(sorted(f"{digest:016x}"[-8:] for digest in _evaluated(process))),
    )


def _hash(values: Iterable[object]) -> str:
    return hashlib.blake2b(repr(tuple(values)).encode(), digest_size=8).hexdigest()


def _held(process: Process) -> dict[int, _Values] | None:
    """Each tensor that a step's optimizer holds, with its values around the step; None where one was never seen."""
    variables = Variables.of(process)
    lines = variables.step_table
    names = variables.first_name[lines.variable]
    order = _by_tensor(names, lines.step)
    names, steps = names[order], lines.step[order]
    before, known = _digests(process, names, lines.column("begin")[order])
    after, _ = _digests(process, names, lines.column("end")[order])
    if not known.all():
        return None
    tensors, begins = np.unique(names, return_index=True)
    parts = zip(*(np.split(column, begins[1:]) for column in (steps, before, after)), strict=True)
    return {name: _Values(*part) for name, part in zip(tensors.tolist(), parts, strict=False)}


def _by_tensor(names: Ints, steps: Ints) -> Ints:
    """The last line of each tensor in each step, by tensor and step: one may be held under several names."""
    order = np.lexsort((steps, names))
    last = np.ones(len(order), dtype=bool)
    last[:-1] = (np.diff(names[order]) != 0) | (np.diff(steps[order]) != 0)
    return order[last]


def _taken(values: _Values) -> list[tuple[int, ...]]:
    """The values that a tensor took: since when it is held, and for how long without moving, does not matter."""
    last = np.concatenate([values.before[:1], values.after[:-1]])
    new = (last != values.before) | (values.before != values.after)
    columns = (column[new].tolist() for column in (values.steps, values.before, values.after))
    return [(int(last[0]),), *zip(*columns, strict=True)]


def _digests(process: Process, variables: Ints, at: Ints) -> tuple[npt.NDArray[np.uint64], Bools]:
    """The digest of the value that each variable had at a time, and whether it had been seen by then."""
    rows = Variables.of(process).last(variables, at)
    known = rows >= 0
    digests = process.events["digest"][np.maximum(rows, 0)] if len(process.events) else np.zeros(len(rows), np.uint64)
    return np.where(known, digests, np.uint64(0)), known


def _trainable(process: Process, number: int, values: _Values) -> bool:
    """Whether gradients may arrive at a tensor in some step that it is held in."""
    variables = Variables.of(process)
    flag = variables.companion("requires_grad")[[number]]
    if not flag[0]:
        return bool(variables.symbols[number].get("requires_grad"))
    ends = np.array([process.steps[step].end for step in values.steps.tolist()])
    states = variables.state(np.repeat(flag, len(ends)), ends)
    return bool((states == fmt.TRUE).any())


def _rates(process: Process, moved: Mapping[int, Ints | None]) -> tuple[tuple[Rates, int], ...] | None:
    """The learning rates of what is trained, in the steps that `moved` it (None: that hold it); None where one was not
    seen.
    """
    variables = Variables.of(process)
    by_group = {
        (int(symbol.get("opt", 0)), int(symbol.get("group", 0) or 0)): int(number)
        for number in variables.ids("lr").tolist()
        for symbol in (variables.symbols[number],)
    }
    lines = variables.step_table
    optimizers, begins = lines.column("optimizer"), lines.column("begin")
    rated = ~np.array([name == BY_HAND for name in process.optimizer_class], dtype=bool)[optimizers]
    groups, of_line = np.unique((optimizers << 32) + lines.group, return_inverse=True)
    known = [by_group.get((group >> 32, group & 0xFFFFFFFF), 0) for group in groups.tolist()]
    rate = np.array(known, dtype=np.int64)[of_line]
    rows = variables.last(rate, begins)
    if (rated & ((rate == 0) | (rows < 0))).any():
        return None
    names = variables.first_name[lines.variable]
    order = _by_tensor(names, lines.step)
    order = order[rated[order]]
    values = process.events["value"][rows[order]]
    borders = np.searchsorted(names[order], np.array([*moved], dtype=np.int64)[:, None] + np.array([0, 1]))
    found: Counter[Rates] = Counter()
    for (low, high), steps in zip(borders.tolist(), moved.values(), strict=True):
        mine, rates = lines.step[order[low:high]], values[low:high]
        if steps is not None:
            kept = np.isin(mine, steps)
            mine, rates = mine[kept], rates[kept]
        new = np.ones(len(mine), dtype=bool)
        new[1:] = rates[1:] != rates[:-1]
        found[tuple(zip(mine[new].tolist(), rates[new].tolist(), strict=True))] += 1
    return tuple(sorted(found.items()))


def _moving(process: Process, numbers: Ints) -> Iterator[str]:
    """Hashes of the values that those variables took, as they stood when steps began, which moved in between."""
    begins = np.array([step.begin for step in process.steps], dtype=np.int64)
    for number in numbers.tolist():
        digests, known = _digests(process, np.full(len(begins), number), begins)
        steps = np.flatnonzero(known)
        new = steps[1:][digests[steps[1:]] != digests[steps[:-1]]]
        if len(new):
            # What a tensor begins with was there before anybody looked; when that was does not matter.
            yield _hash([(int(digests[steps[0]]),), *zip(new.tolist(), digests[new].tolist(), strict=True)])


def _histories(process: Process) -> Iterator[str]:
    """Hashes of the values that each parameter and buffer was seen to take, each with the number of steps before it."""
    variables = Variables.of(process)
    events, rows = process.events, variables.rows
    numbers = np.concatenate([variables.ids(kind) for kind in ("parameter", "buffer")])
    ends = np.sort(np.array([step.end for step in process.steps]))
    begins, stops = (np.searchsorted(events["subject"][rows], numbers, side=side) for side in ("left", "right"))
    for begin, stop in zip(begins.tolist(), stops.tolist(), strict=True):
        mine = rows[begin:stop]
        digests, steps = events["digest"][mine], np.searchsorted(ends, events["seq"][mine])
        new = np.ones(len(mine), dtype=bool)
        new[1:] = digests[1:] != digests[:-1]
        # As in `_moving`: when it was first looked at does not matter.
        steps[:1] = 0
        yield _hash(zip(steps[new].tolist(), digests[new].tolist(), strict=True))


def _evaluated(process: Process) -> list[int]:
    rows = process.measures(_RESULT)
    found: list[int] = process.events["digest"][rows][process.parent_row[rows] >= 0].tolist()
    return found


def _effective(process: Process) -> set[str]:
    """APIs in a call of which something that was known took another value."""
    events = process.events
    rows = np.flatnonzero((events["kind"] == fmt.CHANGE) & (events["old"] != fmt.UNSEEN))
    around = process.parent_row[rows]
    calls = np.concatenate([around[around >= 0], _cuts(process)])
    return {process.api.values[code] for code in np.unique(process.api.codes[calls]).tolist()} - {""}


def _cuts(process: Process) -> Ints:
    """Clipping calls that found a norm above their limit; gradients are not looked at after each one."""
    given = [(symbol.get("values") or {}).get("max_norm") for symbol in process.raw.symbols["args"]]
    limit = np.array([float(value) if isinstance(value, (int, float)) else np.nan for value in given])
    rows = process.rows_of_type("clip")
    cuts: Ints = rows[process.events["value"][rows] > limit[process.events["args"][rows]]]
    return cuts
