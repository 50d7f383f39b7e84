"""Where a candidate makes a call that golden made elsewhere: a call that moved is no call that is missing."""

from __future__ import annotations

import numpy as np

from pytest_traincheck.trace import Process
from pytest_traincheck.trace.labels import Ints

_NEVER = np.iinfo(np.int64).max


def moved_to(process: Process, rows: Ints, number: int, *, on_gradients: bool) -> str:
    """Where calls are made instead of in one training step, in words; empty where they are not made instead.

    Args:
        rows: all calls of one API in the process.
        number: the step, counted by the optimizer that counts the steps, in which none of them was found where golden
            makes one.
        on_gradients: whether golden makes them between a backward pass and the step. Others may stand anywhere around a
            step, and have moved where they left the loop.
    """
    steps = process.lead_steps
    if not len(rows) or number >= len(steps):
        return ""
    seq = np.sort(process.events["seq"][rows].astype(np.int64))
    backward = _backward(process)
    first = int(backward[0]) if len(backward) else 0
    if len(steps) > 1 and seq[-1] < first:
        return "only before the first training step"
    if len(steps) > 1 and seq[0] > steps[-1].end:
        return "only after the last training step"
    if not on_gradients:
        return ""
    begin, end = steps[number].begin, steps[number].end
    previous = steps[number - 1].end if number else 0
    last = int(max(backward[backward < begin], default=0))
    following = int(min(backward[backward > end], default=_NEVER))
    if not (((seq > previous) & (seq < last)) | ((seq > end) & (seq < following))).any():
        return ""
    # What comes between one step and the next backward pass is after the one and before the other: how it begins tells.
    return "only before the last `backward`" if seq[0] < first else "only after the optimizer's step"


def _backward(process: Process) -> Ints:
    """Times of the backward passes outside of every optimizer's step, in order."""
    rows = process.rows_of_type("autograd")
    outermost = rows[~process.inside("autograd", "optimizer")[rows]]
    found: Ints = np.sort(process.events["seq"][outermost].astype(np.int64))
    return found
