"""Whether two runs trained the same to the last bit, by the digests in their traces."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_traincheck.relations.vocabulary import is_loss
from pytest_traincheck.trace import Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.process import Process

_Key = tuple[str, str, str]
"""Kind, root and name of a variable."""


def trained_alike(first: Run, second: Run) -> bool:
    """Whether parameters, buffers and gradients had the same content after every step, and all losses the same value.

    Learning rates and the number of calls do not count: what is the same in every number is the same training.
    """
    if len(first.processes) != len(second.processes):
        return False
    return all(
        _states(one) == _states(other) and _losses(one) == _losses(other)
        for one, other in zip(first.processes, second.processes, strict=True)
    )


def _states(process: Process) -> Mapping[_Key, tuple[tuple[int, int], ...]]:
    """The content of each variable at the end of every step in which it changed, and at the end of the run."""
    symbols = process.raw.symbols
    events = process.events
    rows = np.flatnonzero(events["kind"] == fmt.CHANGE)
    windows = process.window
    found: dict[_Key, dict[int, int]] = {}
    for row in rows.tolist():
        variable = symbols["var"][int(events["subject"][row])]
        kind = str(variable.get("kind", ""))
        if kind not in ("parameter", "buffer", "gradient"):
            continue
        root = symbols["root"][int(variable.get("root", 0))]
        name = f"{root.get('name', '')}#{root.get('ordinal', '')}" if root else f"optimizer {variable.get('opt', 0)}"
        states = found.setdefault((kind, name, str(variable.get("name", ""))), {})
        states[int(windows[row])] = int(events["digest"][row])
    return {key: tuple(sorted(states.items())) for key, states in found.items()}


def _losses(process: Process) -> tuple[float, ...]:
    """What loss functions and whole models returned, where that is one number."""
    loss = np.array([is_loss(name) for name in process.api_names], dtype=bool)
    is_call = process.is_call
    of_loss = np.zeros(len(is_call), dtype=bool)
    of_loss[is_call] = loss[process.events["subject"][is_call]]
    entry = np.zeros(len(is_call), dtype=bool)
    entry[process.entry_rows] = True
    values = process.events["value"][of_loss | entry]
    return tuple(values[~np.isnan(values)].tolist())
