"""The numbers of a run that mean something at once: where each stands in a trace, and what it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from pytest_traincheck.relations import vocabulary
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Ints
from pytest_traincheck.trace.stages import TRAIN
from pytest_traincheck.trace.variables import Variables

Floats = npt.NDArray[np.float64]

Quantity = Literal[
    "loss", "initial scale", "initial mean", "input scale", "activation scale", "gradient norm", "update size"
]
LOSS: Final = "loss"
INITIAL_SCALE: Final = "initial scale"
INITIAL_MEAN: Final = "initial mean"
INPUT: Final = "input scale"
ACTIVATION: Final = "activation scale"
GRADIENT: Final = "gradient norm"
UPDATE: Final = "update size"

_IN_ORDER: tuple[tuple[Quantity, ...], ...] = (
    (INITIAL_SCALE, INITIAL_MEAN),
    (INPUT,),
    (ACTIVATION,),
    (LOSS,),
    (GRADIENT,),
    (UPDATE,),
)

INPUT_MEASURE = "input.rms."
"""Prefix of the measures of inputs; the path of the tensor among the arguments follows."""

TOTAL_LOSS = "the loss that backward starts from"
"""All of the first iteration together: one backward pass over the sum of two losses or two passes are the same."""


def order_of(quantity: Quantity) -> int:
    """Its place among the numbers of a training step, upstream first."""
    return next(place for place, several in enumerate(_IN_ORDER) if quantity in several)


@dataclass(frozen=True)
class Readings:
    """Numbers of one quantity in one process, as parallel columns of length n.

    `rows` are the events they were read from, `variables` and `roots` are ids or 0, `elements` says of how many
    elements the variable is made, 0 where that is not known. A value that is not finite is infinite here.
    """

    names: tuple[str, ...]
    values: Floats
    rows: Ints
    variables: Ints
    roots: Ints
    elements: Ints

    def __len__(self) -> int:
        return len(self.names)

    def of_root(self, root: int) -> Readings:
        """Those of one root module."""
        return self.only(self.roots == root)

    def only(self, mask: npt.ArrayLike) -> Readings:
        """Those where `mask`, of shape (n,), is true."""
        keep = np.flatnonzero(np.asarray(mask, dtype=bool))
        return Readings(
            tuple(self.names[position] for position in keep.tolist()),
            self.values[keep],
            self.rows[keep],
            self.variables[keep],
            self.roots[keep],
            self.elements[keep],
        )


def read(process: Process, quantity: Quantity) -> Readings:
    """Every number of a quantity in one process, each name once."""
    readers: Mapping[Quantity, Callable[[Process], Readings]] = {
        LOSS: _losses,
        INITIAL_SCALE: lambda process: _measured(process, "parameter.rms"),
        INITIAL_MEAN: lambda process: _measured(process, "parameter.mean"),
        INPUT: _inputs,
        ACTIVATION: _activations,
        GRADIENT: _gradients,
        UPDATE: lambda process: _measured(process, "parameter.update"),
    }
    return process.memo(("readings", quantity), lambda: readers[quantity](process))


def _of_variables(process: Process, rows: Ints, variables: Ints) -> Readings:
    table = Variables.of(process)
    return Readings(
        tuple(process.names.variables[number] for number in variables.tolist()),
        process.events["value"][rows].astype(np.float64),
        rows,
        variables,
        table.root[variables],
        np.array([int(np.prod(table.symbols[number].get("shape") or [1])) for number in variables.tolist()], np.int64),
    )


def _first_of_each(rows: Ints, subjects: Ints) -> Ints:
    """The first row of each subject, in order."""
    return np.sort(rows[np.unique(subjects, return_index=True)[1]])


def _largest_of_each(process: Process, rows: Ints, subjects: Ints) -> Ints:
    """The row with the largest value of each subject in the first iteration that it appears in, in order.

    A discriminator may be given what is real before what is not, or after.
    """
    window, value = process.window[rows], process.events["value"][rows]
    order = np.lexsort((rows, -value, window, subjects))
    return np.sort(rows[order[np.unique(subjects[order], return_index=True)[1]]])


def _measured(process: Process, name: str) -> Readings:
    """The first measure of each parameter."""
    rows = process.measures(name)
    rows = rows[~np.isnan(process.events["value"][rows])]
    rows = _first_of_each(rows, process.events["args"][rows].astype(np.int64))
    return _of_variables(process, rows, process.events["args"][rows].astype(np.int64))


def _activations(process: Process) -> Readings:
    """The largest output of each module in its first iteration of training, for models that have parameters."""
    events = process.events
    table = Variables.of(process)
    models = np.unique(table.root[table.ids("parameter")])
    rows = process.measures("activation.rms")
    roots = np.array([symbol.get("root", 0) for symbol in process.raw.symbols["mod"]], dtype=np.int64)
    rows = rows[
        ~np.isnan(events["value"][rows])
        & (process.stage[rows] == TRAIN)
        & np.isin(roots[events["mod"][rows]], models)
        & (events["mod"][rows] > 0)
    ]
    rows = _largest_of_each(process, rows, events["mod"][rows].astype(np.int64))
    none = np.zeros(len(rows), dtype=np.int64)
    return Readings(
        tuple(process.module_name(row) for row in rows.tolist()),
        events["value"][rows].astype(np.float64),
        rows,
        none,
        roots[events["mod"][rows]],
        none,
    )


def _inputs(process: Process) -> Readings:
    """The largest of what each model is given in its first iteration of training, by argument."""
    events = process.events
    names: list[str] = []
    found: list[Ints] = []
    for measure in sorted(str(symbol.get("name", "")) for symbol in process.raw.symbols["measure"]):
        if measure.startswith(INPUT_MEASURE):
            rows = process.measures(measure)
            rows = rows[(process.stage[rows] == TRAIN) & (events["mod"][rows] > 0)]
            rows = _largest_of_each(process, rows, events["mod"][rows].astype(np.int64))
            path = measure.removeprefix(INPUT_MEASURE)
            names += [f"{process.module_name(row)}({path})" for row in rows.tolist()]
            found.append(rows)
    rows = np.concatenate(found) if found else np.empty(0, dtype=np.int64)
    order = np.argsort(rows, kind="stable")
    rows, names = rows[order], [names[place] for place in order.tolist()]
    roots = np.array([symbol.get("root", 0) for symbol in process.raw.symbols["mod"]], dtype=np.int64)
    none = np.zeros(len(rows), dtype=np.int64)
    values = events["value"][rows].astype(np.float64)
    return Readings(tuple(names), values, rows, none, roots[events["mod"][rows]], none)


def _gradients(process: Process) -> Readings:
    """The gradient of each parameter as it is when its optimizer steps for the first time, before it was clipped.

    What clipping leaves has the norm that the user asked for, however large the gradient was.
    """
    events = process.events
    variables = Variables.of(process)
    held = variables.step_table
    first = np.flatnonzero(held.column("number") == 0) if held.steps else np.empty(0, dtype=np.int64)
    gradient = variables.companion("gradient")[variables.first_name[held.variable[first]]]
    begin = held.column("begin")[first]
    changes = variables.rows[variables.kind.isin(["gradient"])[events["subject"][variables.rows]]]
    changes = changes[~process.inside("clip")[changes]]
    key = (events["subject"][changes].astype(np.int64) << 32) + events["seq"][changes].astype(np.int64)
    position = np.searchsorted(key, (gradient << 32) + begin) - 1
    if not len(changes):
        return _of_variables(process, changes, changes)
    rows = changes[np.maximum(position, 0)]
    known = (position >= 0) & (gradient > 0) & (events["subject"][rows] == gradient)
    known &= events["new"][rows] != fmt.ABSENT
    rows = _first_of_each(rows[known], gradient[known])
    found = _of_variables(process, rows, events["subject"][rows].astype(np.int64))
    state = events["new"][rows]
    values = np.where(state == fmt.NONFINITE, np.inf, np.where(state == fmt.ZERO, 0.0, found.values))
    return replace(found, values=values).only(~np.isnan(values))


def _losses(process: Process) -> Readings:
    """The first result of each loss function in training, and what the backward passes of the first iteration start
    from.
    """
    events = process.events
    names: list[str] = []
    values: list[float] = []
    rows: list[int] = []
    for api, calls in _loss_calls(process).items():
        names.append(api)
        values.append(float(events["value"][calls[0]]))
        rows.append(int(calls[0]))
    roots = process.measures("backward.root")
    roots = roots[process.window[roots] == 0]
    if len(roots) and not np.isnan(events["value"][roots]).any():
        names.append(TOTAL_LOSS)
        values.append(float(events["value"][roots].sum()))
        rows.append(int(roots[0]))
    none = np.zeros(len(names), dtype=np.int64)
    return Readings(tuple(names), np.array(values), np.array(rows, dtype=np.int64), none, none, none)


def values_of_losses(process: Process) -> Mapping[str, Floats]:
    """All values in training of what `LOSS` reads the first of, by its name: nobody knows from one whether a loss, as
    that of a policy gradient, is as often negative.
    """
    values = process.events["value"]
    roots = values[process.measures("backward.root")]
    calls = {api: values[rows] for api, rows in _loss_calls(process).items()}
    return {**calls, TOTAL_LOSS: roots[~np.isnan(roots)]}


def _loss_calls(process: Process) -> dict[str, Ints]:
    functions: Sequence[str] = [name for name in process.api.values if vocabulary.is_loss(name)]
    rows = np.flatnonzero(process.is_call & process.api.isin(functions))
    rows = vocabulary.without_metrics(process, rows[process.stage[rows] == TRAIN])
    rows = rows[~np.isnan(process.events["value"][rows])]
    return process.api.groups(rows)


def readings_of(quantity: Quantity, wanted: str, run: Run) -> list[tuple[int, Readings]]:
    """The numbers of a quantity of the root module `wanted` in each process, by the process's position."""
    found = []
    for position, process in enumerate(run.processes):
        readings = read(process, quantity)
        for root in np.unique(readings.roots).tolist():
            if process.names.roots[root] == wanted:
                found.append((position, readings.of_root(root)))
    return found


def by_name(readings: Sequence[Readings]) -> dict[str, Floats]:
    """All numbers of one run under each name: one a rank, as a rule."""
    found: dict[str, list[float]] = {}
    for part in readings:
        for name, value in zip(part.names, part.values.tolist(), strict=True):
            found.setdefault(name, []).append(value)
    return {name: np.array(values) for name, values in found.items()}
