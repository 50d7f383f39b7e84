"""Makes the logs of steps of a run from its trace: one for each training process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pytest_traincheck.golden.step_log import Hashes, Step, StepLog, kept
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Ints
from pytest_traincheck.trace.process import OptimizerStep
from pytest_traincheck.trace.variables import Variables

_COMPUTED = 8
"""Numbers of a step that functions returned: a step that computes more of them is told from its first ones."""
_INPUTS = ("model.input", "later.input")
_LOSSES = ("backward.root", "later.loss")
_WEIGHTS = ("loss.weight",)
_RANDOM = ("rng.", "later.rng.")
_GENERATORS = ("torch", "numpy", "python", "cuda")


@dataclass(frozen=True, eq=False)
class Logged:
    """A log, with the places in the trace that its steps come from."""

    log: StepLog
    rows: Ints
    """Position of each optimizer step among the events of its process."""
    backward: Ints
    """Position of the last backward pass before each step, -1 where there is none."""


def step_logs(run: Run) -> tuple[Logged, ...]:
    """One log for each training process. The names in it are the reader's: golden's where they could be followed."""
    return run.memo("step logs", lambda: tuple(map(_logged, run.processes)))


def _logged(process: Process) -> Logged:
    variables = Variables.of(process)
    tensors = np.concatenate([variables.ids("parameter"), variables.ids("buffer")])
    held = variables.held[tensors]
    trained, others = tensors[held], tensors[~held]
    told = _Told(process)
    followed = sum(step.begin <= told.until for step in process.steps)
    steps = process.steps[: kept(followed, len(tensors))]
    column = {number: place for place, number in enumerate(trained.tolist())}
    table = [_states(process, np.concatenate([trained, others]), step.begin) for step in steps]
    after = _states(process, np.concatenate([trained, others]), steps[-1].end if steps else 0)
    gradients = np.zeros((len(steps), len(trained)), dtype=np.uint16)
    made = []
    previous = 0
    for number, step in enumerate(steps):
        norm = 0.0
        for variable, hashed, size in _gradients(process, step, told.backward_inside(step)):
            if variable in column:
                gradients[number, column[variable]] = hashed
                norm += size * size
        made.append(told.step(step, previous, norm**0.5))
        previous = step.end
    names = process.names.variables
    log = StepLog(
        tuple(made),
        tuple(names[number] for number in trained.tolist()),
        tuple(names[number] for number in others.tolist()),
        np.array([*table, after], dtype=np.uint16).reshape(len(steps) + 1, len(tensors)),
        gradients,
        tuple(process.window[process.measures(fmt.WAITED)].tolist()),
    )
    return Logged(log, np.array([step.row for step in steps], dtype=np.int64), told.backward(steps))


class _Told:
    """What a trace says of the time between two steps."""

    def __init__(self, process: Process) -> None:
        self._process = process
        events = process.events
        self._ends = events["end"]
        models = set(process.entry_rows.tolist())
        self._inputs = np.array(
            [row for row in self._rows(*_INPUTS) if int(process.parent_row[row]) in models], dtype=np.int64
        )
        self._losses = np.array(self._rows(*_LOSSES), dtype=np.int64)
        self._weights = np.array(self._rows(*_WEIGHTS), dtype=np.int64)
        recorded = process.grad_mode == 1
        self._batches = np.array(
            [row for row in process.rows_of_type("data").tolist() if recorded[row]], dtype=np.int64
        )
        number = process.is_call & process.type_codes.isin(("function", "module")) & recorded
        self._computed = np.flatnonzero(number & ~np.isnan(events["value"]) & ~process.inside("autograd"))
        self._random = {
            name: np.array(self._rows(*(f"{prefix}{name}" for prefix in _RANDOM)), dtype=np.int64)
            for name in _GENERATORS
        }
        # One that stands still says nothing, and where nobody seeds it, it begins elsewhere in every run.
        self._random = {name: rows for name, rows in self._random.items() if len(set(self._digests(rows))) > 1}
        backward = process.rows_of_type("autograd")
        self._backward = backward[self._ends[backward] > 0]
        self._rates = _rates(process)
        told = np.concatenate([self._inputs, self._losses, *self._random.values()])
        self.until = int(self._ends[told].max()) if len(told) else 0
        """Until when training was followed."""

    def _digests(self, rows: Ints) -> list[int]:
        found: list[int] = self._process.events["digest"][rows].tolist()
        return found

    def _rows(self, *names: str) -> list[int]:
        return sorted(row for name in names for row in self._process.measures(name).tolist())

    def step(self, step: OptimizerStep, previous: int, norm: float) -> Step:
        """What was given and computed from the end of the step before to the end of this one."""
        process, events = self._process, self._process.events
        digests = events["digest"]
        computed = self._between(self._computed, previous, step.end)[:_COMPUTED]
        return Step(
            process.names.optimizers[step.optimizer],
            int(process.window[step.row]),
            tuple(
                sorted(
                    (self._model(row), _text(digests[row])) for row in self._between(self._inputs, previous, step.end)
                )
            ),
            tuple(sorted(_text(digests[row]) for row in self._between(self._batches, previous, step.end))),
            {
                name: _text(digests[found[-1]])
                for name, rows in self._random.items()
                if (found := self._between(rows, previous, step.end))
            },
            tuple(float(events["value"][row]) for row in self._between(self._losses, previous, step.end)),
            tuple((self._name(row), float(events["value"][row])) for row in computed),
            norm,
            tuple(self._rate(step)),
            tuple(float(events["value"][row]) for row in self._between(self._weights, previous, step.end)),
        )

    def _between(self, rows: Ints, after: int, until: int) -> list[int]:
        ends = self._ends[rows]
        found: list[int] = rows[(ends > after) & (ends <= until)].tolist()
        return found

    def _model(self, row: int) -> str:
        return self._process.names.modules[int(self._process.events["mod"][row])]

    def _name(self, row: int) -> str:
        process = self._process
        module = process.names.modules[int(process.events["mod"][row])]
        return module if process.type_codes[row] == "module" and module else process.api[row]

    def _rate(self, step: OptimizerStep) -> Iterator[float]:
        variables = Variables.of(self._process)
        for group in sorted(set(variables.membership(step.optimizer, step.begin).groups.tolist())):
            rate = self._rates.get((step.optimizer, group), 0)
            row = int(variables.last(np.array([rate]), np.array([step.begin]))[0]) if rate else -1
            if row >= 0:
                yield float(self._process.events["value"][row])

    def backward_inside(self, step: OptimizerStep) -> bool:
        """Whether the step calls a closure that makes its gradients, so that those before it count for nothing."""
        ends = self._ends[self._backward]
        return bool(((ends > step.begin) & (ends < step.end)).any())

    def backward(self, steps: tuple[OptimizerStep, ...]) -> Ints:
        rows = self._backward
        ends = self._ends[rows]
        order = np.argsort(ends, kind="stable")
        places = np.searchsorted(ends[order], [step.end for step in steps], side="right") - 1
        known = np.append(rows[order], -1)  # a place of -1 reads the last entry
        return np.asarray(known[places], dtype=np.int64)


def _states(process: Process, numbers: Ints, at: int) -> Hashes:
    """A hash of what each variable was at a time; 0 for one that had not been seen."""
    rows = Variables.of(process).last(numbers, np.full(len(numbers), at))
    return np.where(rows >= 0, _short(process.events["digest"][np.maximum(rows, 0)]), 0).astype(np.uint16)


def _gradients(process: Process, step: OptimizerStep, inside: bool) -> Iterator[tuple[int, int, float]]:
    """Of what an optimizer holds, where its gradient is not zero: the variable, a hash of the gradient, its norm.

    Before the step; behind it where the gradients are made `inside` of it.
    """
    variables = Variables.of(process)
    members = np.unique(variables.first_name[variables.membership(step.optimizer, step.begin).variables])
    gradients = variables.companion("gradient")[members]
    members, gradients = members[gradients > 0], gradients[gradients > 0]
    rows = variables.last(gradients, np.full(len(gradients), step.end if inside else step.begin))
    events = process.events
    there = (rows >= 0) & ~np.isin(events["new"][np.maximum(rows, 0)], (fmt.ABSENT, fmt.ZERO))
    members, rows = members[there], rows[there]
    hashes, norms = _short(events["digest"][rows]), np.nan_to_num(events["value"][rows])
    yield from zip(members.tolist(), hashes.tolist(), norms.tolist(), strict=True)


def _rates(process: Process) -> Mapping[tuple[int, int], int]:
    """The variable of the learning rate of each group of each optimizer."""
    variables = Variables.of(process)
    return {
        (int(symbol.get("opt", 0)), int(symbol.get("group", 0) or 0)): number
        for number in variables.ids("lr").tolist()
        for symbol in (variables.symbols[number],)
    }


def _short(digests: np.ndarray) -> np.ndarray:
    """64 bits folded into 16, none of them 0."""
    folded = digests ^ (digests >> np.uint64(32))
    folded = (folded ^ (folded >> np.uint64(16))) & np.uint64(0xFFFF)
    return np.where(folded == 0, 1, folded).astype(np.uint16)


def _text(digest: int) -> str:
    return f"{int(digest) & 0xFFFFFFFF:08x}"
