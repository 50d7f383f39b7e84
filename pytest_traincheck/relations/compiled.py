"""What the probe found in the graphs of `torch.compile`: examples of it, and the constants that functions are given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples
from pytest_traincheck.trace import Process
from pytest_traincheck.trace.labels import Ints, Labels
from pytest_traincheck.trace.stages import EVAL

CONSTANT = "constant:"
"""How measures of constants begin, before API, argument and value."""


def constants(process: Process) -> Mapping[tuple[str, str], Mapping[str, tuple[Any, Ints]]]:
    """For each API and argument the values, as JSON and as they are, with their measures outside evaluation."""

    def compute() -> Mapping[tuple[str, str], Mapping[str, tuple[Any, Ints]]]:
        found: dict[tuple[str, str], dict[str, tuple[Any, Ints]]] = {}
        for symbol in process.raw.symbols["measure"]:
            name = str(symbol.get("name", ""))
            if name.startswith(CONSTANT):
                place, _, value = name.removeprefix(CONSTANT).partition("=")
                api, _, argument = place.removesuffix(")").partition("(")
                rows = process.measures(name)
                rows = rows[process.stage[rows] != EVAL]
                if len(rows):
                    found.setdefault((api, argument), {})[value] = json.loads(value), rows
        return found

    return process.memo("compiled constants", compute)


def graph_examples(position: int, values: Mapping[str, Ints], wanted: str) -> Examples:
    """One example for each call in a graph, given the rows by what was found there, as text."""
    if not values:
        return EMPTY
    rows = np.concatenate(list(values.values()))
    observed = Labels.concatenate([Labels.constant(text, len(part)) for text, part in values.items()])
    order = np.argsort(rows, kind="stable")
    return Examples(
        observed.isin([wanted])[order],
        np.full(len(rows), position),
        rows[order],
        np.zeros(len(rows), dtype=np.int64),
        {},
        observed.take(order),
    )
