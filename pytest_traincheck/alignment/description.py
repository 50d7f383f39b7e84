"""The tracked models and optimizers of a run in plain data, and how to match those of another run to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pytest_traincheck.alignment.placement import Models
from pytest_traincheck.optimizer_label import models_in
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.run import Run
from pytest_traincheck.trace.variables import Variables

OWN = "user"
"""The library of what is the user's own code."""


def describe_models(run: Run) -> dict[str, dict[str, list[int]]]:
    """Root -> parameter -> shape, over all processes; sorted by name."""
    return {root: dict(sorted(parameters.items())) for root, parameters in sorted(models_as_made(run).items())}


def models_as_made(run: Run) -> dict[str, dict[str, list[int]]]:
    """Root -> parameter -> shape, over all processes, in the order in which they were first seen."""
    models: dict[str, dict[str, list[int]]] = {}
    for process in run.processes:
        variables = Variables.of(process)
        for number in variables.ids("parameter", tied=True).tolist():
            symbol = variables.symbols[number]
            root = process.names.roots[symbol.get("root", 0)]
            if root:
                models.setdefault(root, {})[str(symbol["name"])] = list(symbol.get("shape") or [])
    return models


def held_parameters(run: Run) -> frozenset[tuple[str, str]]:
    """Root and name of every parameter that some optimizer holds."""
    found: set[tuple[str, str]] = set()
    for process in run.processes:
        variables = Variables.of(process)
        ids = variables.ids("parameter", tied=True)
        for number in ids[variables.held[ids]].tolist():
            symbol = variables.symbols[number]
            found.add((process.names.roots[symbol.get("root", 0)], str(symbol["name"])))
    return frozenset(found)


def describe_optimizers(run: Run) -> dict[str, dict[str, Any]]:
    """Optimizer -> class, and how many parameters it holds, for the optimizers that step; of an own class also the
    names of its settings, and own schedulers that step it: by these they are recognised under another name.
    """
    found: dict[str, dict[str, Any]] = {}
    for process in run.processes:
        for step in process.steps:
            label = process.names.optimizers[step.optimizer]
            if label not in found:
                found[label] = {
                    "class": process.optimizer_class[step.optimizer],
                    "lead": step.optimizer == process.lead_optimizer,
                    "parameters": _parameter_count(process, step.optimizer, step.begin),
                }
                if process.raw.symbols["opt"][step.optimizer].get("library") == OWN:
                    found[label]["settings"] = _settings(process, step.optimizer, step.begin)
                if schedulers := _own_schedulers(process, step.optimizer):
                    found[label]["schedulers"] = schedulers
    return dict(sorted(found.items()))


def _parameter_count(process: Process, optimizer: int, seq: int) -> int:
    return len(Variables.of(process).membership(optimizer, seq).variables)


def _settings(process: Process, optimizer: int, seq: int) -> list[str]:
    hyper = Variables.of(process).membership(optimizer, seq).hyper
    return sorted({name for values in hyper.values() for name in values})


def _own_schedulers(process: Process, optimizer: int) -> list[str]:
    rows = process.rows_of_type("scheduler")
    rows = rows[process.events["opt"][rows] == optimizer]
    apis = [process.raw.symbols["api"][number] for number in np.unique(process.events["subject"][rows]).tolist()]
    return sorted({str(api["name"]).rpartition(".")[0] for api in apis if api.get("library") == OWN})


_ALIKE = 0.5
"""Share of parameters, by name and shape, that two models of different names must have in common."""
_SAME_SHAPES = 0.75
"""What the same shapes under other names count: less than the same names, more than most of them."""
_AS_TRAINED = 0.5
"""What it counts that both or neither are trained: models of one class are told apart by it, such as a network and its
average, and it outweighs every name.
"""
_SAME_NAME, _SAME_NUMBER = 0.2, 0.1
"""What the name of a root counts, and its number among models of one class: it decides between equals alone."""


def align_models(golden: Models, candidate: Models, trained: tuple[frozenset[str], frozenset[str]]) -> dict[str, str]:
    """Candidate root -> golden root, where they differ: classes may be renamed and models of one class made in
    another order.

    Pairs are matched best first: by the parameters' names and shapes, then by whether an optimizer holds them, then
    by the name of
    the root. `trained` are the roots held by optimizers in golden and candidate.
    """
    scored = [
        (
            _likeness(shapes, candidate[root])
            + _AS_TRAINED * ((other in trained[0]) == (root in trained[1]))
            + _same_name(other, root),
            other,
            root,
        )
        for other, shapes in golden.items()
        for root in candidate
        if root == other or _likeness(shapes, candidate[root]) >= _ALIKE
    ]
    mapping: dict[str, str] = {}
    taken: set[str] = set()
    for _, other, root in sorted(scored, key=lambda pair: (-pair[0], pair[1], pair[2])):
        if other not in taken and root not in mapping:
            mapping[root] = other
            taken.add(other)
    # A root that stands for none must not keep a name that another has been given.
    for root in candidate:
        if root not in mapping and root in taken:
            mapping[root] = f"{root} (new)"
    return {root: other for root, other in mapping.items() if root != other}


def _same_name(golden: str, candidate: str) -> float:
    if golden == candidate:
        return _SAME_NAME
    return _SAME_NUMBER if golden.partition("#")[2] == candidate.partition("#")[2] else 0.0


def _likeness(golden: Mapping[str, Sequence[int]], candidate: Mapping[str, Sequence[int]]) -> float:
    if not golden or not candidate:
        return 0.0
    same = sum(name in candidate and list(candidate[name]) == list(shape) for name, shape in golden.items())
    by_name = same / max(len(golden), len(candidate))
    shapes = sorted(map(list, golden.values()))
    other = sorted(map(list, candidate.values()))
    return max(by_name, _SAME_SHAPES if shapes == other else 0.0)


def align_optimizers(
    golden: Mapping[str, Mapping[str, Any]], candidate: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Candidate optimizer -> golden optimizer, where the label differs because it holds other models or is of
    another class.

    The best match is the open golden optimizer that shares most models, then the class, then the order.
    """
    mapping: dict[str, str] = {}
    open_golden = [label for label in golden if label not in candidate]
    for label in (label for label in candidate if label not in golden):
        if not open_golden:
            break
        best = max(
            open_golden,
            key=lambda other: (_shared(other, label), golden[other].get("class") == candidate[label].get("class")),
        )
        mapping[label] = best
        open_golden.remove(best)
    return mapping


def _shared(first: str, second: str) -> float:
    a, b = _held(first), _held(second)
    return len(a & b) / len(a | b) if a | b else 0.0


def held_models(optimizers: Mapping[str, object]) -> frozenset[str]:
    """The roots that the labels of some optimizers name."""
    return frozenset(root for label in optimizers for root in _held(label))


def _held(label: str) -> frozenset[str]:
    return frozenset(models_in(label))
