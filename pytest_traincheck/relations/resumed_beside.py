"""What a resume has to restore beside trained parameters: buffers, and averages of a model."""

from __future__ import annotations

import numpy as np

from pytest_traincheck.relations.context import trained_roots
from pytest_traincheck.relations.loaded import history_of
from pytest_traincheck.relations.steps_between import given_between
from pytest_traincheck.trace import Process
from pytest_traincheck.trace.labels import Bools, Ints
from pytest_traincheck.trace.variables import Variables

KINDS = ("parameter", "buffer")
_NONE = np.empty(0, dtype=np.int64)


def restored_beside(process: Process, root: str) -> tuple[Ints, Ints, Bools]:
    """For each process that goes on with the one before it: rows of the first steps taken there, variables, and whether
    each has what it was left with.

    Looked at are variables that no optimizer holds and that the training had changed, of the model `root`, and of those
    that no optimizer holds anything of if `root` is the first that is trained. What is changed once more before the
    next step, as the statistics of a forward pass, is compared before that; a copy that no module holds is known only
    from the first step on.
    """
    variables, names = Variables.of(process), process.names
    trained = sorted({names.roots[number] for number in trained_roots(process)} - {""})
    if not process.raw.joins or root not in trained:
        return _NONE, _NONE, np.empty(0, dtype=bool)
    wanted = {root} | ({*names.roots} - {*trained, ""} if root == trained[0] else set())
    ids = np.concatenate([variables.ids(kind) for kind in KINDS])
    ids = ids[~variables.held[ids]]
    ids = ids[np.array([names.roots[number] in wanted for number in variables.root[ids].tolist()], dtype=bool)]
    seen = variables.first_seen(ids)
    found: list[tuple[int, int, bool]] = []
    for era, join in enumerate(process.raw.joins, start=1):
        until, row = _first_use(process, era)
        before = {names.variables[number]: number for number in ids[process.era(seen) < era].tolist()}
        for number in ids[process.era(seen) == era].tolist():
            earlier = before.get(names.variables[number])
            if row >= 0 and earlier is not None:
                found += _compared(process, (earlier, number), (join, until), row)
    rows, numbers, alike = zip(*found, strict=True) if found else ((), (), ())
    return np.array(rows, dtype=np.int64), np.array(numbers, dtype=np.int64), np.array(alike, dtype=bool)


def _first_use(process: Process, era: int) -> tuple[int, int]:
    """When a model is first called to train in a process, and the row of the first step there; -1 for none that is
    there any more.
    """
    steps = [step for step in process.steps if int(process.era(step.begin)) == era]
    stretch = process.raw.stretch
    if not steps or (stretch is not None and process.raw.joins[era - 1] < stretch.begin < steps[0].begin):
        return 0, -1
    seq = process.events["seq"][process.entry_rows].astype(np.int64)
    calls = seq[(process.era(seq) == era) & (seq < steps[0].begin)]
    return (int(calls.min()) - 1 if len(calls) else steps[0].begin), steps[0].row


def _compared(process: Process, pair: tuple[int, int], times: tuple[int, int], row: int) -> list[tuple[int, int, bool]]:
    """Whether a variable has what the one whose place it takes was left with. What training never changed has it
    without being restored, where it is made as before.
    """
    variables, events = Variables.of(process), process.events
    saved = _saved(process).get(pair[0], ())
    average = variables.kind[pair[0]] == "parameter"
    if average and not saved:
        # What follows a step, as an average does, is looked at in the next one.
        return [(row, pair[1], False)] if _is_as_made(process, pair, times[0], row) else []
    if process.rank and not saved and pair[1] in given_between(process, times[0], int(events["seq"][row])):
        return []  # Where the first rank saves for all of them, each goes on with what that one had.
    first, begun = (int(each) for each in process.row_at(variables.first_seen(np.array(pair))))
    left, now = (int(each) for each in variables.last(np.array(pair), np.array(times)))
    if now < 0 <= begun and int(events["seq"][begun]) <= int(events["seq"][row]):
        now = begun
    if min(left, now, first) < 0 or not int(events["digest"][left]) or not int(events["digest"][now]):
        return []
    if average:
        # Of several checkpoints any may be the one that training goes on from.
        contents = {content for _, content in saved}
    elif not saved or saved[-1][0] < _last_step(process, times[0]):
        contents = {int(events["digest"][left])}
    else:
        contents = {saved[-1][1]}
    return [(row, pair[1], int(events["digest"][now]) in contents)]


def _is_as_made(process: Process, pair: tuple[int, int], join: int, row: int) -> bool:
    """Whether a variable that training had changed has what it was made with when the next process takes its first
    step, though that process loads what an optimizer holds. That may be what the variable began with, where both begin
    with one seed, and is nothing else that was there before.
    """
    variables, events = Variables.of(process), process.events
    begins = int(events["seq"][row])
    given = given_between(process, join, begins)
    if pair[1] in given or not variables.held[variables.first_name[given]].any():
        return False
    both = np.array(pair)
    first = variables.first_seen(both)
    left, now = variables.last(both, np.array([join, begins])).tolist()
    made, made_again = process.row_at(first).tolist()
    if min(left, now, made, made_again) < 0:
        return False
    content = int(events["digest"][now])
    if not content or content != int(events["digest"][made_again]):
        return False
    begun = int(events["digest"][made])
    if int(events["digest"][left]) == begun:
        return False
    if content == begun:
        return True
    earlier = history_of(process).of(content)
    return not any(int(events["seq"][place]) < int(first[1]) for _, place, _ in earlier)


def _last_step(process: Process, time: int) -> int:
    return max((step.end for step in process.steps if step.end <= time), default=0)


def _saved(process: Process) -> dict[int, list[tuple[int, int]]]:
    """By variable when it was saved, and with which content."""

    def compute() -> dict[int, list[tuple[int, int]]]:
        rows = process.measures("save.content")
        columns = (process.events[name][rows].tolist() for name in ("args", "seq", "digest"))
        found: dict[int, list[tuple[int, int]]] = {}
        for number, seq, digest in zip(*columns, strict=True):
            found.setdefault(number, []).append((seq, digest))
        return found

    return process.memo("saved contents", compute)
