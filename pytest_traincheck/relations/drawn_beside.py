"""Steps of which the data or chance decide how many numbers they draw: that something is drawn beside what is alike in
all golden runs, and about how many numbers it is in all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.drawn_claims import DrawnAbout, DrawnBeside
from pytest_traincheck.relations.draws import Generator, by_step, places
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Labels

LEAST, MOST, MEAN = "least", "most", "mean"
"""Names of the fewest and the most numbers that a step draws, and of their mean."""
FACTOR = 2.0
"""How many times as many numbers one golden step may draw as another, and golden's as the candidate's."""
MORE = 4.0
"""How many times as many numbers as golden's the candidate's steps may draw: another way to make a Gaussian number out
of uniform ones takes up to three times as many.
"""
STEPS = 2
"""Steps after the first that are looked at at least: what one draws may be up to chance."""
_ENOUGH_FOR_MEAN = 4
"""Steps after the first from which on their mean says something: that all of as many draw less than the least of
golden's steps, and half as much as these on average, is no chance.
"""
_FEW = 8
BESIDE, WITH = "beside", "with "
"""Names of numbers: how many are alike in all steps, and which functions draw the others."""
_FEWEST = 16
"""Numbers that must be drawn beside in every golden step: fewer may be drawn by chance in one and not in another."""


def drawn_beside(runs: Sequence[Run]) -> dict[str, float] | None:
    """How many numbers every step after the first draws alike, and with which functions it draws others, in whatever
    number; None where golden's steps draw nothing else, or nothing alike (then that nothing is drawn says it).
    """
    found = [list(_groups(run)) for run in runs]
    steps = [groups for of_run in found for groups in of_run]
    if not all(found) or len(steps) < 2:
        return None
    names = {name for groups in steps for name in groups}
    alike = {name for name in names if len({groups.get(name, 0) for groups in steps}) == 1}
    others = [sum(words for name, words in groups.items() if name not in alike) for groups in steps]
    number = sum(steps[0][name] for name in alike)
    if not number or min(others) < _FEWEST:
        return None
    counted = [count for run in runs for process in run.processes for count in counts(process).values()]
    if any(count <= number for count in counted):
        return None
    functions = sorted({function for _, function in names - alike if function})
    return {BESIDE: float(number)} | {f"{WITH}{function}": 1.0 for function in functions}


def drawn_about(runs: Sequence[Run], generator: Generator) -> dict[str, float] | None:
    """The fewest and the most numbers that any step after the first draws, and their mean; None where they are few, or
    far apart.
    """
    found = [list(counts(process, generator).values()) for run in runs for process in run.processes if process.windows]
    counted = [count for each in found for count in each]
    if not all(len(each) >= STEPS for each in found) or not counted:
        return None
    least, most = min(counted), max(counted)
    numbers = {LEAST: least, MOST: most, MEAN: round(sum(counted) / len(counted))}
    return numbers if least >= _FEW and most <= FACTOR * least else None


def _groups(run: Run) -> Iterator[Mapping[tuple[str, str], int]]:
    """What each sketched step after the first draws, by place and function. The first one begins with set-up."""
    for process in run.processes:
        for step, draws in places(process).items():
            found: dict[tuple[str, str], int] = {}
            for draw in draws:
                found[draw.place, draw.function] = found.get((draw.place, draw.function), 0) + draw.words
            if step:
                yield found


def counts(process: Process, generator: Generator = "torch") -> dict[int, float]:
    """The numbers that each step after the first draws, where that is known."""
    return {step: count for step, count in by_step(process, generator).items() if step and math.isfinite(count)}


def examples_beside(process: Process, position: int, claim: DrawnBeside | DrawnAbout) -> Examples:
    """One example for a process, at its first step: whether not all of its steps draw otherwise."""
    drawn, rows = counts(process, claim.generator), [step.row for step in process.lead_steps]
    if len(drawn) < STEPS or not rows:
        return EMPTY
    counted = list(drawn.values())
    if isinstance(claim, DrawnBeside):
        holds = max(counted) > claim.numbers.low[claim.numbers.position[BESIDE]]
    else:
        holds = (
            not _far_fewer(claim, counted) and min(counted) <= MORE * claim.numbers.low[claim.numbers.position[MOST]]
        )
    return Examples(
        np.array([bool(holds)]),
        np.array([position]),
        np.array(rows[:1], dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        {"rank": rank_label(process, 1)},
        Labels.of(np.zeros(1, dtype=np.int64), [" ".join(f"{count:.0f}" for count in drawn.values())]),
    )


def _far_fewer(claim: DrawnAbout, counted: Sequence[float]) -> bool:
    """Whether all steps draw less than half of what golden's steps do: of the least, or on average, where there are
    enough steps and none draws as much as golden's least.
    """
    low, position_of = claim.numbers.low, claim.numbers.position
    most, least = max(counted), low[position_of[LEAST]]
    if FACTOR * most < least:
        return True
    if MEAN not in position_of or len(counted) < _ENOUGH_FOR_MEAN or most >= least:
        return False
    return bool(FACTOR * sum(counted) < low[position_of[MEAN]] * len(counted))
