"""What happens within calls that generate: how often the model is called, and what it is given."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples
from pytest_traincheck.relations.context import module_roots
from pytest_traincheck.text import plural
from pytest_traincheck.trace import Process
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Ints, Labels

KIND = "generate"
"""The type of the calls."""
CONTEXT = "generate.context"


def limits(process: Process) -> Mapping[str, list[str]]:
    """API -> the arguments that are as large as the number of calls of the model, in all its calls."""
    found: dict[str, set[str]] = {}
    for row, calls in zip(_rows(process).tolist(), _calls(process).tolist(), strict=True):
        equal = {name for name, value in _numbers(process, row).items() if value == calls > 1}
        api = process.api[row]
        found[api] = found[api] & equal if api in found else equal
    return {api: sorted(names) for api, names in found.items()}


def calls_as_asked(process: Process, position: int, api: str, argument: str) -> Examples:
    """One example for all calls of an API together. It is none only where several calls differ from the argument by the
    same number, or where one does by the tokens that it was given: a text that ends early differs now and then, and by
    chance.
    """
    rows, calls = _rows(process), _calls(process)
    known = [
        (row, made, asked)
        for row, made in zip(rows.tolist(), calls.tolist(), strict=True)
        if process.api[row] == api and (asked := _numbers(process, row).get(argument)) is not None
    ]
    if not known:
        return EMPTY
    apart = {made - asked for _, made, asked in known}
    wrong = len(apart) == 1 and 0 not in apart
    wrong = wrong and (len(known) > 1 or abs(next(iter(apart))) in _lengths(process, known[0][0]))
    if len(apart) > 1 or (len(apart) == 1 and 0 not in apart and not wrong):
        return EMPTY
    row, made, asked = known[0]
    return Examples(
        np.array([not wrong]),
        np.array([position]),
        np.array([row]),
        np.zeros(1, dtype=np.int64),
        {"stage": process.stage_labels.take(np.array([row]))},
        Labels.of(np.zeros(1, dtype=np.int64), (f"{plural(made, 'call')} where {asked} were asked for",)),
    )


def contexts(process: Process, position: int, api: str) -> Examples:
    """One example for each call of a model within an API but the first, where the tokens that it is given are known."""
    measures = process.measures(CONTEXT)
    inner = process.parent_row[measures]
    outer = process.parent_row[inner]
    both = np.flatnonzero((outer[1:] == outer[:-1]) & (outer[1:] >= 0)) + 1
    both = both[[process.api[row] == api for row in outer[both].tolist()]] if len(both) else both
    if not len(both):
        return EMPTY
    digests = process.events["digest"][measures]
    return Examples(
        np.asarray(digests[both] != digests[both - 1]),
        np.full(len(both), position),
        inner[both],
        np.zeros(len(both), dtype=np.int64),
    )


def _rows(process: Process) -> Ints:
    return process.rows_of_type(KIND)


def _calls(process: Process) -> Ints:
    """How often each call that generates calls the model that it is a method of."""

    def compute() -> Ints:
        events, rows = process.events, _rows(process)
        roots = module_roots(process)[events["mod"]]
        entries = np.flatnonzero(process.is_call & ((events["flags"] & fmt.ENTRY) != 0))
        times = events["seq"].astype(np.int64)
        return np.array(
            [
                int(
                    (
                        (times[entries] > times[row])
                        & (times[entries] < int(events["end"][row]))
                        & (roots[entries] == roots[row])
                    ).sum()
                )
                for row in rows.tolist()
            ],
            dtype=np.int64,
        )

    return process.memo("calls within generation", compute)


def _numbers(process: Process, row: int) -> Mapping[str, int]:
    """The whole numbers among the arguments of a call."""
    values = process.raw.symbols["args"][int(process.events["args"][row])].get("values") or {}
    return {name: value for name, value in values.items() if type(value) is int}


def _lengths(process: Process, row: int) -> frozenset[int]:
    """The lengths of the sequences among the arguments of a call."""
    values = process.raw.symbols["args"][int(process.events["args"][row])].get("values") or {}
    shapes = [
        value["tensor"].get("shape") for value in values.values() if isinstance(value, dict) and "tensor" in value
    ]
    return frozenset(int(shape[-1]) for shape in shapes if shape)
