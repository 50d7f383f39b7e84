"""Which of the global random generators numbers are drawn from in training steps."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pytest_traincheck.trace import Process
from pytest_traincheck.trace.reader import read_sketches

State = Literal["rng.torch", "rng.numpy", "rng.python", "rng.cuda"]
STATES: tuple[State, ...] = ("rng.torch", "rng.numpy", "rng.python", "rng.cuda")
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
    repeats = set(inside.tolist()) <= set(noted["digest"][window == 0].tolist())
    return repeats or not _found_again(process, name)


def _found_again(process: Process, name: str) -> bool:
    """Whether every optimizer step of the second iteration finds the state that the last one of the first found."""
    rows = process.measures(name)
    window, states = process.window[rows], process.events["digest"][rows]
    return set(states[window == 1].tolist()) <= set(states[window == 0][-1:].tolist())
