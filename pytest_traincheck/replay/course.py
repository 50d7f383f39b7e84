"""The course of a run: what every parameter, buffer and learning rate went through, step by step."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from pytest_traincheck.golden.course import Course, Rates
from pytest_traincheck.optimizer_label import BY_HAND
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints
from pytest_traincheck.trace.variables import Variables

_RESULT = "evaluated.result"
_Values = list[tuple[int, int, int]]
"""Of one tensor: number of a step, digest before it, digest after it."""


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
    moved = {number: steps for number, values in held.items() if (steps := _moved(values))}
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
    found: dict[int, _Values] = {}
    for number, step in enumerate(process.steps):
        members = np.unique(variables.first_name[variables.membership(step.optimizer, step.begin).variables])
        before, known = _digests(process, members, step.begin)
        after, _ = _digests(process, members, step.end)
        if not known.all():
            return None
        for variable, *pair in zip(members.tolist(), before.tolist(), after.tolist(), strict=True):
            found.setdefault(variable, []).append((number, *pair))
    return found


def _moved(values: _Values) -> frozenset[int]:
    """The steps that left a tensor with another value."""
    return frozenset(number for number, before, after in values if before != after)


def _taken(values: _Values) -> Iterator[tuple[int, ...]]:
    """The values that a tensor took: since when it is held, and for how long without moving, does not matter."""
    last = values[0][1]
    yield (last,)
    for number, before, after in values:
        if not last == before == after:
            yield number, before, after
        last = after


def _digests(process: Process, numbers: Ints, at: int) -> tuple[Ints, Bools]:
    """Of each variable the digest of the value that it had at a time, and whether it had been seen by then."""
    rows = Variables.of(process).last(numbers, np.full(len(numbers), at))
    known = rows >= 0
    return np.where(known, process.events["digest"][np.maximum(rows, 0)], 0), known


def _trainable(process: Process, number: int, values: _Values) -> bool:
    """Whether gradients may arrive at a tensor in some step that it is held in."""
    variables = Variables.of(process)
    flag = variables.companion("requires_grad")[[number]]
    if not flag[0]:
        return bool(variables.symbols[number].get("requires_grad"))
    ends = np.array([process.steps[step].end for step, *_ in values])
    states = variables.state(np.repeat(flag, len(ends)), ends)
    return bool((states == fmt.TRUE).any())


def _rates(process: Process, moved: Mapping[int, frozenset[int] | None]) -> tuple[tuple[Rates, int], ...] | None:
    """The learning rates of what is trained, in the steps that `moved` it (None: that hold it); None where one was not
    seen.
    """
    variables = Variables.of(process)
    by_group = {
        (int(symbol.get("opt", 0)), int(symbol.get("group", 0) or 0)): int(number)
        for number in variables.ids("lr").tolist()
        for symbol in (variables.symbols[number],)
    }
    changes: dict[int, list[tuple[int, float]]] = {}
    for number, step in enumerate(process.steps):
        members = variables.membership(step.optimizer, step.begin)
        rates: dict[int, float] = {}
        for group in np.unique(members.groups).tolist():
            rate = by_group.get((step.optimizer, group), 0)
            if process.optimizer_class[step.optimizer] == BY_HAND:
                continue
            row = int(variables.last(np.array([rate]), np.array([step.begin]))[0]) if rate else -1
            if row < 0:
                return None
            rates[group] = float(process.events["value"][row])
        names = variables.first_name[members.variables]
        for variable, group in dict(zip(names.tolist(), members.groups.tolist(), strict=True)).items():
            if variable not in moved:
                continue
            known, steps = changes.setdefault(variable, []), moved[variable]
            if group in rates and (steps is None or number in steps) and (not known or known[-1][1] != rates[group]):
                known.append((number, rates[group]))
    return tuple(sorted(Counter(tuple(changes[variable]) for variable in moved).items()))


def _moving(process: Process, numbers: Ints) -> Iterator[str]:
    """Hashes of the values that those variables took, as they stood when steps began, which moved in between."""
    begins = [step.begin for step in process.steps]
    table = [_digests(process, numbers, begin) for begin in begins]
    for place in range(len(numbers)):
        values: list[tuple[int, ...]] = []
        for step, (digests, known) in enumerate(table):
            digest = int(digests[place])
            if known[place] and (not values or values[-1][-1] != digest):
                # What a tensor begins with was there before anybody looked; when that was does not matter.
                values.append((step, digest) if values else (digest,))
        if len(values) > 1:
            yield _hash(values)


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
        new = [place for place in range(len(mine)) if place == 0 or digests[place] != digests[place - 1]]
        # As in `_moving`: when it was first looked at does not matter.
        yield _hash([(0 if place == 0 else int(steps[place]), int(digests[place])) for place in new])


def _evaluated(process: Process) -> list[int]:
    rows = process.measures(_RESULT)
    found: list[int] = process.events["digest"][rows][process.parent_row[rows] >= 0].tolist()
    return found


def _effective(process: Process) -> set[str]:
    """APIs in a call of which something that was known took another value."""
    events = process.events
    rows = np.flatnonzero((events["kind"] == fmt.CHANGE) & (events["old"] != fmt.UNSEEN))
    around = process.parent_row[rows]
    found = {process.api[row] for row in np.unique(around[around >= 0]).tolist()} - {""}
    return found | {process.api[row] for row in process.rows_of_type("clip").tolist() if _cut(process, row)}


def _cut(process: Process, row: int) -> bool:
    """Whether a clipping call found a norm above its limit; gradients are not looked at after each one."""
    given = process.raw.symbols["args"][int(process.events["args"][row])].get("values") or {}
    limit = given.get("max_norm")
    return isinstance(limit, (int, float)) and float(process.events["value"][row]) > limit
