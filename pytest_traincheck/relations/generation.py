"""What happens within calls that generate, and those that are asked for a number of something: how often the model is
called, what it is given, and how much is returned.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples
from pytest_traincheck.relations.context import module_roots
from pytest_traincheck.text import plural
from pytest_traincheck.trace import Process
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Ints, Labels

KIND, ASKED = "generate", "asked"
"""Types of the calls: methods of that name, and functions of the user's that call a model and are given whole numbers.
"""
ASKED_CALLS = "asked.calls"
SEVERAL = 4
"""Calls of which at least one is as asked, where a text ends early by chance."""
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
    same number, or where one does by the tokens that it was given, or many do by any: a text that ends early differs
    now and then, and by chance.
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
    wrong = wrong or (len(known) >= SEVERAL and 0 not in apart)
    if not wrong and apart != {0}:
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


def sizes(process: Process) -> Mapping[str, list[tuple[str, int]]]:
    """API -> arguments that are a size of the tensor that is returned, and the dimension, in all its calls."""
    found: dict[str, set[tuple[str, int]]] = {}
    for row in process.rows_of_type(ASKED).tolist():
        shape, numbers = _shape(process, row), _numbers(process, row)
        equal = {(name, place) for place, size in enumerate(shape) for name, value in numbers.items() if value == size}
        api = process.api[row]
        found[api] = found[api] & equal if api in found else equal
    return {api: sorted(places) for api, places in found.items()}


def size_as_asked(process: Process, position: int, api: str, argument: str, place: int) -> Examples:
    """One example for all calls of an API together: whether a size of the result is an argument. Only rows are always
    as many; what grows to one side may end early, in some calls.
    """
    known = []
    for row in process.rows_of_type(ASKED).tolist():
        shape, wanted = _shape(process, row), _numbers(process, row).get(argument)
        if process.api[row] == api and wanted is not None and len(shape) > place:
            known.append((row, shape[place], wanted))
    other = [item for item in known if item[1] != item[2]]
    if not known or (other and place and (len(other) < len(known) or len(known) < SEVERAL)):
        return EMPTY
    row, size, wanted = (other or known)[0]
    return Examples(
        np.array([not other]),
        np.array([position]),
        np.array([row]),
        np.zeros(1, dtype=np.int64),
        {"stage": process.stage_labels.take(np.array([row]))},
        Labels.of(np.zeros(1, dtype=np.int64), (f"{size} where {wanted} were asked for",)),
    )


def _shape(process: Process, row: int) -> tuple[int, ...]:
    value = process.raw.symbols["ret"][int(process.events["ret"][row])].get("value")
    tensor = value.get("tensor") if isinstance(value, Mapping) else None
    return tuple(tensor.get("shape") or ()) if isinstance(tensor, Mapping) else ()


def _rows(process: Process) -> Ints:
    return process.rows_of_type(KIND, ASKED)


def _calls(process: Process) -> Ints:
    """How often each call that generates calls the model that it is a method of, or one of several models most."""

    def compute() -> Ints:
        events, rows = process.events, _rows(process)
        owner = module_roots(process)
        entries = np.flatnonzero(process.is_call & ((events["flags"] & fmt.ENTRY) != 0))
        times, roots = events["seq"][entries], owner[events["mod"][entries]]
        measures = process.measures(ASKED_CALLS)
        told = dict(zip(process.parent_row[measures].tolist(), events["value"][measures].tolist(), strict=True))
        return np.array(
            [
                int(told[row])
                if row in told
                else int(
                    (
                        (times > events["seq"][row])
                        & (times < events["end"][row])
                        & (roots == owner[events["mod"][row]])
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
