"""The shapes of what losses are given: an input that has not the shape of its targets is repeated along them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples
from pytest_traincheck.relations.vocabulary import is_loss
from pytest_traincheck.trace import Process
from pytest_traincheck.trace.labels import Bools, Ints, Labels


def shapes_of_losses(process: Process) -> Mapping[str, tuple[Ints, Bools, Labels]]:
    """For each loss function that is given tensors as input and targets its calls, whether the shapes of both are one,
    and what they are. Losses that only measure count too.
    """

    def compute() -> Mapping[str, tuple[Ints, Bools, Labels]]:
        found: dict[str, tuple[Ints, Bools, Labels]] = {}
        for api in sorted(filter(is_loss, process.api.values)):
            calls = np.flatnonzero(process.is_call & process.api.isin([api]) & ~process.inside("function"))
            used, inverse = np.unique(process.events["args"][calls], return_inverse=True)
            pairs = [_shapes_of(process, number) for number in used.tolist()]
            known = np.array([pair is not None for pair in pairs], dtype=bool)[inverse]
            same = np.array([pair is not None and pair[0] == pair[1] for pair in pairs], dtype=bool)
            texts = [f"of shape {pair[0]} and the targets of shape {pair[1]}" if pair else "" for pair in pairs]
            if known.any():
                found[api] = calls[known], same[inverse][known], Labels.of(inverse[known], texts)
        return found

    return process.memo("shapes of losses", compute)


def _shapes_of(process: Process, number: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    values = process.raw.symbols["args"][number].get("values") or {}
    both = [values.get(name) for name in ("input", "target")]
    shapes = [tuple(item["tensor"].get("shape") or ()) for item in both if isinstance(item, dict) and "tensor" in item]
    return (shapes[0], shapes[1]) if len(shapes) == 2 else None


def shape_examples(process: Process, position: int, api: str) -> Examples:
    """One example for each call of a loss function: whether its input has the shape of its targets."""
    rows, same, seen = shapes_of_losses(process).get(api, (np.empty(0, dtype=np.int64), None, None))
    if same is None or seen is None:
        return EMPTY
    return Examples(
        same,
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"stage": process.stage_labels.take(rows)},
        seen,
    )
