"""Parameters that a training sets free, or freezes, in steps that golden's runs were too short for."""

from __future__ import annotations

import numpy as np

from pytest_traincheck.relations.context import requires_grad
from pytest_traincheck.trace import Process
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints
from pytest_traincheck.trace.variables import Variables


def trains_others(process: Process) -> bool:
    """Whether other parameters are trainable by the end of the later steps than by that of the beginning."""

    def compute() -> bool:
        stretch = process.raw.stretch
        if stretch is None or not len(process.events):
            return False
        before, now = (_trainable(process, seq) for seq in (stretch.head_end, int(process.events["seq"][-1])))
        return any(before[name] != free for name, free in now.items() if name in before)

    return process.memo("trains others than in the beginning", compute)


def trained_in_beginning(process: Process) -> frozenset[str]:
    """The names of parameters that an optimizer held, and that were trainable, when the beginning ended that golden's
    runs are as long as; none where all steps are there.
    """
    stretch = process.raw.stretch
    if stretch is None:
        return frozenset()

    def compute() -> frozenset[str]:
        variables, names, end = Variables.of(process), process.names.variables, stretch.head_end
        made = range(1, len(process.optimizer_class))
        first = [number for number in made if 0 < variables.recorded(number) <= end]
        held = {names[each] for number in first for each in variables.membership(number, end).variables.tolist()}
        return frozenset(name for name, free in _trainable(process, end).items() if free and name in held)

    return process.memo("trained in the beginning", compute)


def _trainable(process: Process, seq: int) -> dict[str, bool]:
    """Whether each parameter, by its name, is trainable at a time; of those with one name the latest is meant."""
    variables = Variables.of(process)
    ids = variables.ids("parameter")
    ids = ids[variables.first_seen(ids) <= seq]
    free = trainable_at(process, ids, np.full(len(ids), seq))
    names = [process.names.variables[number] for number in ids.tolist()]
    return dict(zip(names, free.tolist(), strict=True))


def trainable_at(process: Process, ids: Ints, seq: Ints) -> Bools:
    """`requires_grad` of parameters, each at a time."""
    variables = Variables.of(process)
    flag = variables.companion("requires_grad")[ids]
    state = variables.state(flag, seq)
    return np.asarray(np.where((flag > 0) & (state >= fmt.FALSE), state == fmt.TRUE, requires_grad(process)[ids]))


def since(process: Process, ids: Ints, seq: int) -> Ints:
    """When each parameter became what it is at a time: when it was last frozen or set free, or else first seen."""
    variables = Variables.of(process)
    rows = variables.last(variables.companion("requires_grad")[ids], np.full(len(ids), seq))
    changed = np.where(rows >= 0, process.events["seq"][np.maximum(rows, 0)].astype(np.int64), 0)
    return np.maximum(changed, variables.first_seen(ids))
