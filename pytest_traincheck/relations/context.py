"""The context of examples: fields that mean something to a person, in the order in which a precondition prefers
them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_traincheck.trace import Process
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.variables import Variables

FIELD_WORDS: Mapping[str, str] = {
    "stage": "in stage {}",
    "first_step": "first step: {}",
    "time": "at the {}",
    "training": "training flag {}",
    "grad_mode": "gradients {}",
    "inference": "inference mode {}",
    "backward": "inside backward: {}",
    "autocast": "autocast {}",
    "learning_rate": "learning rate {}",
    "requires_grad": "requires_grad {}",
    "shape": "where the parameter is a {}",
    "api": "in calls of `{}`",
    "mesh": "place in the mesh: {}",
    "rank": "rank {}",
    "optimizer": "for the optimizer `{}`",
    "root": "in `{}`",
    "child": "in `{}`",
    "module": "in `{}`",
    "variable": "for `{}`",
}
"""Every field a precondition may use, strongest meaning first, with its wording."""

TIME, FIRST_STEP, LAST_STEP = "time", "first step", "last step"
"""A field that says which end of a run an example stands for, and its values."""


def call_context(process: Process, rows: Ints) -> dict[str, Labels]:
    """Context of calls."""
    events = process.events
    flags = events["flags"][rows]
    return {
        "stage": process.stage_labels.take(rows),
        "first_step": Labels.flags(process.window[rows] == 0),
        "training": Labels.flags((flags & fmt.TRAINING) != 0, "on", "off"),
        "grad_mode": Labels.flags(process.grad_mode[rows] == 1, "enabled", "disabled"),
        "backward": Labels.flags(process.inside("autograd")[rows]),
        "autocast": process.autocast.take(rows),
        "inference": Labels.flags(process.inference[rows] == 1, "on", "off"),
        "mesh": mesh_label(process, len(rows)),
        "rank": rank_label(process, len(rows)),
        "root": Labels.of(module_roots(process)[events["mod"][rows]], process.names.roots),
        "module": Labels.of(events["mod"][rows], process.names.modules),
    }


def step_context(process: Process, rows: Ints) -> dict[str, Labels]:
    """Context of optimizer steps and of windows, given the rows of steps."""
    return {
        "first_step": Labels.flags(process.window[rows] == 0),
        "rank": rank_label(process, len(rows)),
        "optimizer": Labels.of(process.events["opt"][rows], process.names.optimizers),
    }


def variable_context(process: Process, variable: Ints) -> dict[str, Labels]:
    """Context of variables, by their ids."""
    variables = Variables.of(process)
    return {
        "requires_grad": Labels.flags(requires_grad(process)[variable], "on", "off"),
        "shape": Labels.of(_dimensions(process)[variable], ("scalar", "vector", "matrix")),
        "root": Labels.of(variables.root[variable], process.names.roots),
        "child": Labels.of(variable, _children(process)),
        "variable": Labels.of(variable, process.names.variables),
    }


def rank_label(process: Process, size: int) -> Labels:
    """`first` for rank 0, `other` for the rest: rules never speak of a rank by its number."""
    return Labels.constant("first" if process.rank == 0 else "other", size)


def mesh_label(process: Process, size: int) -> Labels:
    """In each named dimension of the device mesh `first` or `other`, as with ranks; empty without a mesh."""
    mesh = process.raw.meta.get("mesh") or {}
    places = [f"{name} {'first' if place[0] == 0 else 'other'}" for name, place in sorted(mesh.items())]
    return Labels.constant(", ".join(places), size)


def state_labels(states: Ints) -> Labels:
    return Labels.of(states, fmt.STATE_NAMES)


def module_roots(process: Process) -> Ints:
    """Root id of each module, by module id."""
    return process.memo(
        "module roots",
        lambda: np.array([symbol.get("root", 0) for symbol in process.raw.symbols["mod"]], dtype=np.int64),
    )


def requires_grad(process: Process) -> Bools:
    """`requires_grad` of each variable as it was first seen."""
    return process.memo(
        "requires_grad",
        lambda: np.array([bool(symbol.get("requires_grad")) for symbol in Variables.of(process).symbols], dtype=bool),
    )


def trained_roots(process: Process) -> frozenset[int]:
    """Ids of the roots that are called in training."""

    def compute() -> frozenset[int]:
        entries = process.entry_rows
        entries = entries[process.stage[entries] == 1]
        return frozenset(np.unique(module_roots(process)[process.events["mod"][entries]]).tolist())

    return process.memo("trained roots", compute)


def _dimensions(process: Process) -> Ints:
    return process.memo(
        "dimensions",
        lambda: np.array([min(len(symbol.get("shape") or ()), 2) for symbol in Variables.of(process).symbols]),
    )


def _children(process: Process) -> tuple[str, ...]:
    """The root's direct child to which each variable belongs."""

    def compute() -> tuple[str, ...]:
        names = []
        for number, symbol in enumerate(Variables.of(process).symbols):
            root = process.names.roots[symbol.get("root", 0)] if number else ""
            path = str(symbol.get("name", ""))
            names.append(f"{root}.{path.split('.', 1)[0]}" if "." in path else root)
        return tuple(names)

    return process.memo("children", compute)
