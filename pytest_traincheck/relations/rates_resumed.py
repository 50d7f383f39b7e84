"""Whether the learning rate goes on where a training was left, when another optimizer takes the place of the first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pytest_traincheck.relations.hyperparameter import learning_rates, steps_of
from pytest_traincheck.relations.settings import text_of
from pytest_traincheck.trace import Process
from pytest_traincheck.trace.process import OptimizerStep
from pytest_traincheck.trace.variables import Variables

GOES_ON = "goes on"


@dataclass(frozen=True)
class Resumed:
    """The first step of an optimizer that takes the place of another one."""

    row: int
    wrong: bool
    text: str


def _second(row: int, left: float, now: float | None, was: float | None) -> list[Resumed]:
    """A scheduler that was not restored shows when it sets the rate for the first time."""
    if now is None or was is None or not math.isclose(now, was, rel_tol=1e-6) or math.isclose(now, left, rel_tol=1e-3):
        return []
    text = f"{GOES_ON} with {text_of(now)}, as it began, and was left with {text_of(left)}: the schedule begins again"
    return [Resumed(row, True, text)]


def _has_stepped(process: Process, step: OptimizerStep) -> bool:
    """Whether an optimizer had a learning rate in steps that are not there any more, so that this is not its first."""
    variables, stretch = Variables.of(process), process.raw.stretch
    if stretch is None or step.begin <= stretch.begin:
        return False
    rates = [each for each in variables.ids("lr").tolist() if variables.symbols[each].get("opt", 0) == step.optimizer]
    return bool((variables.first_seen(np.array(rates, dtype=np.int64)) <= stretch.begin).any())


def rates_at_resumes(process: Process, label: str, group: int) -> list[Resumed]:
    """Each first step of an optimizer that takes the place of another one called so.

    Schedulers leave the rate in the optimizer, and a resume restores it. A rate that is set by hand follows from the
    number of the step, and may be another one for the very step that comes next; but it is none that the training began
    with and has left long ago.
    """
    called = [number for number, name in enumerate(process.names.optimizers) if name == label]
    taken = sorted((steps for number in called if (steps := steps_of(process, number))), key=lambda each: each[0].begin)
    found = []
    for before, after in pairwise(taken):
        step, last = after[0], before[-1]
        if last.end > step.begin or _has_stepped(process, step):
            continue
        left = learning_rates(process, last.optimizer, step.begin).get(group)
        began = learning_rates(process, taken[0][0].optimizer, taken[0][0].begin).get(group)
        now = learning_rates(process, step.optimizer, step.begin).get(group)
        if left is None or now is None or began is None:
            continue
        alike, anew = math.isclose(now, left, rel_tol=1e-6), math.isclose(now, began, rel_tol=1e-6)
        scheduled = bool(np.isin(process.events["opt"][process.rows_of_type("scheduler")], called).any())
        wrong = not alike and (scheduled or anew)
        how = ", with which it began: the schedule begins again" if anew else ": the schedule was not restored"
        text = f"{GOES_ON} with {text_of(now)}, and was left with {text_of(left)}{how if wrong else ''}"
        found.append(Resumed(step.row, wrong, text))
        if not wrong and len(after) > 1 and len(taken[0]) > 1 and not math.isclose(left, began, rel_tol=1e-6):
            seconds = (after[1], taken[0][1])
            second, was = (learning_rates(process, each.optimizer, each.begin).get(group) for each in seconds)
            found += _second(after[1].row, left, second, was)
    return found
