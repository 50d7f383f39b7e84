"""Evaluation that a training comes to only in steps that golden's runs were too short for.

The first validation, or the first samples that are drawn from a model, may come in step 80. Golden's rules about
evaluation are then about something else that it does without gradients, such as what a generator makes for its critic,
and say nothing about this. By what it does in the first steps, as many as golden's, the training itself shows what
golden knows: calls that come from the same lines, and in the same stage. A model that is not called so in its first
steps is one that golden's shorter runs have evaluated at their end, and the rules are about that.
"""

from __future__ import annotations

import numpy as np

from pytest_traincheck.relations.context import module_roots
from pytest_traincheck.trace import Process
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.stages import EVAL

_MIX = np.uint64(0x9E3779B97F4A7C15)


def out_of_reach(process: Process) -> Bools:
    """Which events are calls in evaluation from where none came in the first steps; none where all steps are there."""
    return process.memo("later evaluation", lambda: _found(process))


def _found(process: Process) -> Bools:
    found = np.zeros(len(process.events), dtype=bool)
    stretch = process.raw.stretch
    if stretch is None:
        return found
    calls = np.flatnonzero(process.is_call & (process.stage == EVAL))
    first = process.events["seq"][calls] <= stretch.head_end
    # By name: a resume makes models anew, each in the place of one.
    roots = Labels.of(module_roots(process)[process.events["mod"][calls]], process.names.roots)
    known = roots.isin(roots.groups(np.flatnonzero(first)))
    ways = _ways(process, calls)
    found[calls] = known & ~first & ~np.isin(ways, np.unique(ways[first]))
    return found


def _ways(process: Process, calls: Ints) -> np.ndarray:
    """A number for the lines that each call comes from: its own, and those of all calls around it."""
    ways, rows = np.zeros(len(calls), dtype=np.uint64), calls.copy()
    inside = np.ones(len(calls), dtype=bool)
    while inside.any():
        lines = process.events["src"][rows[inside]].astype(np.uint64) + np.uint64(1)
        ways[inside] = (ways[inside] ^ lines) * _MIX
        rows[inside] = process.parent_row[rows[inside]]
        inside = rows >= 0
    return ways
