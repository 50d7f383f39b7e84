"""What several laws look at: arguments of calls, weights, and what variables hold at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from pytest_traincheck.trace import Process
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.variables import Variables


def arguments(process: Process, row: int) -> Mapping[str, Any]:
    """The arguments of a call by name, as far as they are known."""
    return process.raw.symbols["args"][int(process.events["args"][row])].get("values") or {}


def calls_of(process: Process, names: set[str] | frozenset[str]) -> Ints:
    """The rows of the calls of any of these APIs, in order."""
    return np.flatnonzero(process.is_call & process.api.isin(names))


def within(process: Process, rows: Ints, names: Collection[str]) -> Bools:
    """Which events lie in a call of any of these APIs."""
    wanted = process.is_call & process.api.isin(names)
    found, around = np.zeros(len(rows), dtype=bool), process.parent_row[rows]
    while (around >= 0).any():
        found |= (around >= 0) & wanted[around]
        around = np.where(around >= 0, process.parent_row[around], -1)
    return found


def weights(process: Process, ids: Ints | None = None) -> Ints:
    """Parameters with two dimensions or more: of these, or of all, each tensor once."""
    variables = Variables.of(process)
    if ids is None:
        ids = variables.ids("parameter")
    large = [len(variables.symbols[number].get("shape") or ()) > 1 for number in ids.tolist()]
    return np.asarray(ids[np.array(large, dtype=bool)])


def loaded(process: Process) -> Ints:
    """Variables that some load has given."""
    rows = process.measures("load.given")
    return np.unique(process.events["args"][rows[process.events["value"][rows] > 0]]).astype(np.int64)


def digests(process: Process, variable: Ints, seq: Ints) -> Ints:
    """What each variable held at a time, as a hash; 0 where it was not seen by then."""
    rows = Variables.of(process).last(variable, seq)
    return np.where(rows >= 0, process.events["digest"][np.maximum(rows, 0)], 0).astype(np.int64)


def labels_of(texts: Sequence[str]) -> Labels:
    """A column of texts."""
    names = sorted(set(texts))
    index = {name: number for number, name in enumerate(names)}
    return Labels.of(np.array([index[text] for text in texts], dtype=np.int64), names)
