"""Steps that draw more than what is alike in all golden runs: how many numbers is up to the data, and that they are
drawn is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from pytest_traincheck.relations.draws import by_step, places
from pytest_traincheck.trace import Process, Run

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


def _groups(run: Run) -> Iterator[Mapping[tuple[str, str], int]]:
    """What each sketched step after the first draws, by place and function. The first one begins with set-up."""
    for process in run.processes:
        for step, draws in places(process).items():
            found: dict[tuple[str, str], int] = {}
            for draw in draws:
                found[draw.place, draw.function] = found.get((draw.place, draw.function), 0) + draw.words
            if step:
                yield found


def counts(process: Process) -> dict[int, float]:
    """The numbers that each step after the first draws, where that is known."""
    return {step: count for step, count in by_step(process, "torch").items() if step and math.isfinite(count)}
