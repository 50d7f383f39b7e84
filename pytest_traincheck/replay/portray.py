"""Makes the portrait of a run from its trace: what a report draws of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pytest_traincheck.golden.portrait import (
    CALLS,
    RANKS,
    SHAPES,
    STEPS,
    Call,
    Curve,
    Group,
    Outline,
    Portrait,
    Rank,
)
from pytest_traincheck.golden.step_log import Step
from pytest_traincheck.replay.step_logs import step_logs
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints
from pytest_traincheck.trace.stages import EVAL, INIT
from pytest_traincheck.trace.variables import Variables

EVALUATION = Call("evaluation", "evaluation")
"""Stands for all calls of one evaluation."""

_KINDS = (
    *("module", "function", "choice", "optimizer", "zero_grad", "autograd", "clip", "scaler", "scheduler", "data"),
    *("collective", "update", "generate", "compile"),
)
"""Types of calls that a step is told by."""
_AROUND = ("module", "function", "optimizer", "autograd", "clip", "scaler", "scheduler", "zero_grad", "update")
"""Types of calls within which nothing is told."""
_NAMED = 6
"""Parameters of a group that are named."""
_SETTINGS = ("lr", "weight_decay", "momentum", "betas")


def portrait(run: Run, others: Sequence[Run] = ()) -> Portrait:
    """What of a run is drawn, with the curves of `others`, which differ by their seeds."""
    if not run.processes:
        return Portrait()
    first = run.processes[0]
    curves = [curve for each in (run, *others) for curve in _curves(each)]
    ranks = [_rank(process, steps) for process, steps in zip(run.processes[:RANKS], _logs(run), strict=False)]
    return Portrait(run.seed, tuple(curves), _outline(first), tuple(_groups(first)), tuple(ranks))


def _logs(run: Run) -> list[tuple[Step, ...]]:
    return [logged.log.steps for logged in step_logs(run)]


def _curves(run: Run) -> Iterator[Curve]:
    """One curve for each optimizer of the first process."""
    logs = _logs(run)
    if not logs:
        return
    by_optimizer: dict[str, dict[int, Step]] = {}
    for step in logs[0]:
        if step.window < STEPS:
            by_optimizer.setdefault(step.optimizer, {})[step.window] = step
    last = max((window for steps in by_optimizer.values() for window in steps), default=-1)
    for optimizer, steps in by_optimizer.items():
        found = [steps.get(window) for window in range(last + 1)]
        groups = max((len(step.rates) for step in steps.values()), default=0)
        rates = [
            tuple(step.rates[group] if step and group < len(step.rates) else math.nan for step in found)
            for group in range(groups)
        ]
        yield Curve(
            run.seed,
            optimizer,
            tuple(sum(step.losses) if step and step.losses else math.nan for step in found),
            tuple(step.norm if step else math.nan for step in found),
            tuple({repr(line): line for line in rates}.values()),
        )


def _rank(process: Process, steps: Sequence[Step]) -> Rank:
    """The last step of each window stands for it."""
    by_window = {step.window: step for step in steps if step.window < STEPS}
    count = max(by_window, default=-1) + 1
    rows = process.rows_of_type("collective")
    calls = np.bincount(process.window[rows], minlength=count) if rows.size else np.zeros(count, dtype=np.int64)
    found = [by_window.get(window) for window in range(count)]
    return Rank(
        process.rank,
        tuple(_batches(step) if step else () for step in found),
        tuple(sum(step.losses) if step and step.losses else math.nan for step in found),
        tuple(step.norm if step else math.nan for step in found),
        tuple(calls[:count].tolist()),
    )


def _batches(step: Step) -> tuple[str, ...]:
    """What a loader returned; where there is none, what models were given."""
    made = tuple(digest for digest in step.batches if digest.strip("0"))  # the end of an epoch returns nothing
    return made or tuple(digest for _, digest in step.inputs)


def _outline(process: Process) -> Outline:
    """The outermost calls of each step of a process, with every evaluation as one call."""
    rows = np.flatnonzero(process.is_call & process.type_codes.isin(_KINDS) & ~process.inside(*_AROUND))
    # Before the first forward pass data sets and models are made, which is no part of a step.
    rows = rows[(process.stage[rows] != INIT) | ~process.type_codes.isin(["function", "choice"])[rows]]
    rows = np.union1d(rows, process.rows_of_type("collective"))
    rows = rows[~_below_data(process, rows) & (process.window[rows] < min(process.windows, STEPS))]
    numbers: dict[Call, int] = {}
    shapes: dict[tuple[int, ...], int] = {}
    steps = []
    for window in range(min(process.windows, STEPS)):
        own = rows[process.window[rows] == window]
        shape = tuple(numbers.setdefault(call, len(numbers)) for call in _calls(process, own))
        if len(shapes) == SHAPES and shape not in shapes:
            break
        steps.append(shapes.setdefault(shape, len(shapes)))
    return Outline(tuple(numbers), tuple(shapes), tuple(steps))


def _below_data(process: Process, rows: Ints) -> Bools:
    """Calls that make a batch, and collectives within another."""
    parents = process.parent_row[rows]
    types = process.type_codes.isin(["data", "collective", "checkpoint"])
    return np.asarray((parents >= 0) & types[np.maximum(parents, 0)])


def _calls(process: Process, rows: Ints) -> Iterator[Call]:
    evaluating = False
    for row in rows[:CALLS].tolist():
        if int(process.stage[row]) == EVAL:
            if not evaluating:
                yield EVALUATION
            evaluating = True
            continue
        evaluating = False
        kind = process.type_codes[row]
        module = process.module_name(row) if kind == "module" else ""
        yield Call("module" if kind == "choice" and module else kind, module or process.api[row])


def _groups(process: Process) -> Iterator[Group]:
    """The groups of every optimizer at its first step, and then what none holds."""
    variables = Variables.of(process)
    held: set[int] = set()
    seen: set[int] = set()
    at = 0
    for step in process.steps:
        if step.optimizer in seen:
            continue
        seen.add(step.optimizer)
        at = step.begin
        members = variables.membership(step.optimizer, step.begin)
        for index, hyper in sorted(members.hyper.items()):
            numbers = np.unique(variables.first_name[members.variables[members.groups == index]])
            held.update(numbers.tolist())
            yield _group(process, process.names.optimizers[step.optimizer], index, numbers, at, _settings(hyper))
    rest = np.array([number for number in variables.ids("parameter").tolist() if number not in held], dtype=np.int64)
    if seen and rest.size:
        yield _group(process, "", 0, rest, at, ())


def _group(
    process: Process, optimizer: str, index: int, numbers: Ints, at: int, settings: tuple[tuple[str, str], ...]
) -> Group:
    variables = Variables.of(process)
    elements = [int(np.prod(variables.symbols[number].get("shape") or [1])) for number in numbers.tolist()]
    trainable = int(_trainable(variables, numbers, at).sum())
    names = tuple(process.names.variables[number] for number in numbers[:_NAMED].tolist())
    return Group(optimizer, index, len(numbers), sum(elements), trainable, names, settings)


def _trainable(variables: Variables, numbers: Ints, at: int) -> Bools:
    flags = variables.companion("requires_grad")[numbers]
    state = variables.state(flags, np.full(len(numbers), at))
    first = np.array([bool(variables.symbols[number].get("requires_grad")) for number in numbers.tolist()], dtype=bool)
    return np.where((flags > 0) & (state >= fmt.FALSE), state == fmt.TRUE, first)


def _settings(hyper: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The settings of a group that people compare, in words."""
    found = []
    for name in _SETTINGS:
        value = hyper.get(name)
        if isinstance(value, dict):
            value = next((content for form, content in value.items() if form in ("tuple", "list")), None)
        if value is not None:
            found.append((name, ", ".join(map(_short, value)) if isinstance(value, list) else _short(value)))
    return tuple(found)


def _short(value: object) -> str:
    return format(value, ".4g") if isinstance(value, float) else str(value)[:40]
