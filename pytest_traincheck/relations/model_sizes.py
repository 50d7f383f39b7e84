"""Whether a candidate's models have as many elements as the golden's, for findings that count elements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pytest_traincheck.alignment.description import held_parameters, models_as_made
from pytest_traincheck.trace import Run

MOST = 3
"""Models that are named."""


def other_sizes(run: Run) -> str:
    """The trained models whose parameters have more or fewer elements than in the golden run, in words: "`Net` has
    parameters with 30 elements instead of 20"; empty where there is none, and where the golden's models are not known.
    """
    if not run.golden_models:
        return ""
    models = models_as_made(run)
    found = []
    for root in sorted({root for root, _ in held_parameters(run)} & models.keys()):
        now, was = _elements(models[root]), _elements(run.golden_models.get(root, {}))
        if now != was:
            there = f" instead of {was}" if was else ", and is not in the golden run"
            found.append(f"`{root}` has parameters with {now} elements{there}")
    more = [f"{len(found) - MOST} more models are different"] if len(found) > MOST else []
    *others, last = [*found[:MOST], *more] or [""]
    return f"{', '.join(others)} and {last}" if others else last


def _elements(parameters: Mapping[str, Sequence[int]]) -> int:
    return sum(math.prod(shape) for shape in parameters.values())
