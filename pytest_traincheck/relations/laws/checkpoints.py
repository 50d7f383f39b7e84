"""Checkpoints: a training that resumes takes up everything, and what is read is used.

A training that goes on without the state of its optimizer or of its scheduler begins again in disguise.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples
from pytest_traincheck.relations.laws.law import Law, Told, each_process, table
from pytest_traincheck.relations.laws.places import calls_of
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Deviation, Place
from pytest_traincheck.trace import Process, Run

_RESUME = "https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html"
_MODULE = "torch.nn.Module.load_state_dict"
_OPTIMIZER_KEYS = frozenset({"state", "param_groups"})
_SCHEDULER_KEY = "last_epoch"


class CheckpointWhole(Law):
    """A checkpoint holds the optimizer and not its scheduler, or the scheduler alone."""

    name = "CheckpointWhole"
    subject = "torch.save"
    says = "A checkpoint of a training holds the states of the optimizer and of its scheduler"
    expected = "optimizer and scheduler are saved"
    because = Reason(
        "checkpoint-incomplete",
        "A training that resumes without the state of its optimizer loses its momentum; without that of its scheduler "
        "the learning rate begins again, often with a warm-up.",
        _RESUME,
        "Save `optimizer.state_dict()` and `scheduler.state_dict()` beside the model's.",
        "Schedules that follow from the number of the step.",
    )
    right = '{"model": m.state_dict(), "optimizer": o.state_dict(), "scheduler": s.state_dict()}'
    wrong = '{"model": m.state_dict(), "optimizer": o.state_dict()}'
    place = Place.RESUMED
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, _saves)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told("A checkpoint of the training holds the state of the optimizer or of its scheduler, and not both.",
                    "an incomplete checkpoint")  # fmt: skip


class OptimizerLoaded(Law):
    """A checkpoint with the state of an optimizer is read, and the optimizer begins without."""

    name = "OptimizerLoaded"
    subject = "torch.optim.Optimizer.load_state_dict"
    says = "An optimizer's state that is read from a checkpoint, together with the model that is trained on, is loaded"
    expected = "the optimizer goes on with its state"
    because = Reason(
        "optimizer-state-not-loaded",
        "Moments and step counts that begin again make the first steps after resuming too long.",
        _RESUME,
        'Call `optimizer.load_state_dict(checkpoint["optimizer"])`.',
        "Fine-tuning from a checkpoint.",
    )
    right = 'model.load_state_dict(c["model"])\noptimizer.load_state_dict(c["optimizer"])'
    wrong = 'model.load_state_dict(c["model"])'
    place = Place.RESUMED
    deviation = Deviation.NEVER

    def places(self, run: Run) -> Examples:
        return each_process(run, _resumes)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told("A checkpoint with the optimizer's state is read and its model loaded; the optimizer begins empty.",
                    "the optimizer begins without state")  # fmt: skip


class ReadIsLoaded(Law):
    """The weights of a file are read and go into no model."""

    name = "ReadIsLoaded"
    subject = "torch.load"
    says = "Weights that are read from a file are loaded into a model"
    expected = "what is read is loaded"
    because = Reason(
        "read-and-not-loaded",
        "`torch.load` returns the weights and changes no model. One that is made afterwards is random.",
        _RESUME,
        "Call `model.load_state_dict(torch.load(path))` on the model that is used.",
    )
    right = "teacher.load_state_dict(torch.load(path))"
    wrong = "state = torch.load(path)\nteacher = Net()"
    place = Place.INITIAL
    deviation = Deviation.NEVER

    def places(self, run: Run) -> Examples:
        return each_process(run, _read)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told("Weights are read from a file, and no model loads them.", "what is read is not loaded")


def _entries(value: object) -> Mapping[str, object]:
    """The entries of a dictionary in a summary."""
    inside = value.get("dict") if isinstance(value, Mapping) else None
    return inside if isinstance(inside, Mapping) else {}


def _parts(value: object) -> set[str]:
    """What a checkpoint is made of."""
    found: set[str] = set()
    for entry in _entries(value).values():
        keys = _entries(entry).keys()
        if keys >= _OPTIMIZER_KEYS:
            found.add("optimizer")
        elif _SCHEDULER_KEY in keys:
            found.add("scheduler")
        elif any(isinstance(item, Mapping) and "tensor" in item for item in _entries(entry).values()):
            found.add("model")
    return found


def _saved(process: Process, row: int) -> object:
    return (process.raw.symbols["args"][int(process.events["args"][row])].get("values") or {}).get("obj")


def _returned(process: Process, row: int) -> object:
    return process.raw.symbols["ret"][int(process.events["ret"][row])].get("value")


def _calls(process: Process, name: str) -> list[int]:
    return list(map(int, calls_of(process, {name})))


def _saves(process: Process, position: int) -> Examples:
    """One example for each file that holds the state of an optimizer or of a scheduler, where schedulers step."""
    if not len(process.rows_of_type("scheduler")):
        return EMPTY
    parts = {row: _parts(_saved(process, row)) for row in _calls(process, "torch.save")}
    kept = {row: found for row, found in parts.items() if found & {"optimizer", "scheduler"} and "model" in found}
    return (
        table(process, position, [{"optimizer", "scheduler"} <= found for found in kept.values()], list(kept))
        if kept
        else EMPTY
    )


def _resumes(process: Process, position: int) -> Examples:
    """One example for each checkpoint with a model's and an optimizer's state after which the model is loaded and an
    optimizer steps.
    """
    seq = process.events["seq"]
    loads = sorted(int(seq[row]) for row in _calls(process, _MODULE))
    states = [int(seq[row]) for row in np.flatnonzero(process.is_call).tolist()
              if process.api[row].endswith(".load_state_dict") and process.api[row] != _MODULE]  # fmt: skip
    rows, holds = [], []
    for row in _calls(process, "torch.load"):
        if not {"optimizer", "model"} <= _parts(_returned(process, row)):
            continue
        begin = int(seq[row])
        following = next((step.begin for step in process.steps if step.begin > begin), 0)
        if following and any(begin < time < following for time in loads):
            rows.append(row)
            holds.append(any(begin < time < following for time in states))
    return table(process, position, holds, rows) if rows else EMPTY


def _read(process: Process, position: int) -> Examples:
    """One example for each file of weights, by the names that these have."""
    rows, holds = [], []
    seq = process.events["seq"]
    loads = [int(seq[row]) for row in _calls(process, _MODULE)]
    for row in _calls(process, "torch.load"):
        entries = _entries(_returned(process, row))
        named = [name for name in entries if str(name).endswith((".weight", ".bias"))]
        if len(named) > 1 and 2 * len(named) >= len(entries):
            rows.append(row)
            holds.append(any(time > seq[row] for time in loads))
    return table(process, position, holds, rows) if rows else EMPTY
