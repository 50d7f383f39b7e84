"""Which of the global random generators numbers are drawn from in training steps."""

from __future__ import annotations

import numpy as np

from pytest_traincheck.trace import Process
from pytest_traincheck.trace.reader import read_sketches

STATES = ("rng.torch", "rng.numpy", "rng.python")
"""Measures of the state before an optimizer step, and slots of states that were new."""


def drawn_from(process: Process) -> frozenset[str]:
    """Those whose state moved within a step after the first, as far as steps were sketched.

    One that is set aside while others are used, by `torch.random.fork_rng`, moves and is afterwards what it was: it
    counts only where all the states that it took are those of a step before.
    """
    return process.memo("drawn from", lambda: frozenset(name for name in STATES if _moves(process, name)))


def _moves(process: Process, name: str) -> bool:
    sketches = read_sketches(process.raw)
    wanted = (name, f"before.{name.removeprefix('rng.')}")
    slots = [number for number, slot in enumerate(process.raw.symbols["slot"]) if slot.get("name") in wanted]
    noted = sketches[np.isin(sketches["slot"], slots)]
    window = np.searchsorted(process.step_ends, noted["at"].astype(np.int64), side="left")
    inside = noted["digest"][(window > 0) & (window < process.windows)]
    if not len(inside):
        return False
    before = _before_steps(process, name)
    return len(set(before)) > 1 or set(inside.tolist()) <= set(noted["digest"][window == 0].tolist())


def _before_steps(process: Process, name: str) -> list[int]:
    """The state at the end of each of the first two steps, before an optimizer did its work."""
    rows = process.measures(name)
    at_end = {window: row for row, window in zip(rows.tolist(), process.window[rows].tolist(), strict=True)}
    return [int(process.events["digest"][at_end[window]]) for window in (0, 1) if window in at_end]
