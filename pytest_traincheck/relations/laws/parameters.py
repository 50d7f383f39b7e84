"""Parameters: each in memory of its own, drawn once, frozen before training, and changed by steps for good.

A momentum encoder that is the query encoder under another name, an update that somebody writes back, layers that begin
alike: the program runs, and part of it does nothing.
"""

from __future__ import annotations

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples, listed, variable_names
from pytest_traincheck.relations.context import requires_grad, trained_roots
from pytest_traincheck.relations.laws.law import Law, Told, each_process, table
from pytest_traincheck.relations.laws.places import digests, weights
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Deviation, Place
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.variables import Variables

_OFTEN = 3
"""Initialisations of one parameter: by its layer, by the model, and by one that it lies in."""
_LEAST_STEPS = 3


class OwnMemory(Law):
    """Parameters of two models share their memory."""

    name = "OwnMemory"
    subject = "torch.nn.Parameter"
    says = "No two parameters lie in the same memory"
    expected = "each parameter has memory of its own"
    because = Reason(
        "parameters-share-memory",
        "A parameter that is a view of another one changes whenever that one does. A copy that shares memory with its "
        "model, such as a momentum encoder or a target, is no copy.",
        "https://docs.pytorch.org/docs/stable/tensor_view.html",
        "Copy with `copy.deepcopy(model)` or `p.detach().clone()`; `state_dict()` and `.data` are the memory itself.",
        "Views of one flat buffer, where a framework packs all parameters into it.",
    )
    right = "target = copy.deepcopy(model)"
    wrong = "for mine, p in zip(target.parameters(), model.parameters()):\n    mine.data = p.data"
    place = Place.INITIAL

    def places(self, run: Run) -> Examples:
        return each_process(run, _apart)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)))
        return Told(f"{names} share memory with other parameters: whatever changes these changes them.",
                    "parameters share memory")  # fmt: skip


class StepStays(Law):
    """What a step has changed is written back before the next one."""

    name = "StepStays"
    subject = "torch.optim.Optimizer.step"
    says = "What an optimizer step has changed is not undone before the next step"
    expected = "parameters keep what a step made of them"
    because = Reason(
        "step-undone",
        "A parameter that has the values from before the step again when the next one begins is not trained: an old "
        "state is loaded, or a broadcast comes from a rank that did not update it.",
        remedy="Look for `load_state_dict`, `copy_` and collectives between the steps.",
        meant="Meta-learning and line searches, which return to where they began.",
    )
    right = "dist.broadcast(p.data, src=owner[p])"
    wrong = "dist.broadcast(p.data, src=0)  # though another rank has updated it"
    place = Place.KEPT
    depth = 4

    def places(self, run: Run) -> Examples:
        return each_process(run, _staying)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)))
        return Told(f"{names} have the values from before the step again when the next step begins, in most steps.",
                    "updates are written back")  # fmt: skip


_CLONING = frozenset(f"torch.nn.{name}" for name in ("Transformer", "TransformerEncoder", "TransformerDecoder"))
"""Modules that make their layers by copying one."""


class BeginsDifferent(Law):
    """Two weights of a model begin with the same values."""

    name = "BeginsDifferent"
    subject = "torch.nn.init"
    says = "No two weights of a model begin with the same values"
    expected = "each weight is drawn by itself"
    because = Reason(
        "weights-begin-alike",
        "Layers that begin alike are copies of one that was drawn once, or drawn with one seed; and a weight that "
        "begins as another one and is no longer tied to it was cut loose from it.",
        remedy="Make each layer by itself; tie weights by assigning the parameter: `head.weight = embedding.weight`.",
        meant="Layers that are cloned on purpose, and a copy that follows.",
    )
    right = "self.layers = nn.ModuleList(Block() for _ in range(6))"
    wrong = "self.layers = nn.ModuleList(copy.deepcopy(block) for _ in range(6))"
    place = Place.INITIAL
    depth = 3

    def places(self, run: Run) -> Examples:
        return each_process(run, _beginning)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = variable_names(run, examples, np.array(broken))
        verb, owner = ("begins", "its") if len(names) == 1 else ("begin", "their")
        return Told(f"{listed(names)} {verb} with the same values as another weight of {owner} model.",
                    "weights begin alike")  # fmt: skip


class InitialisedOnce(Law):
    """A parameter is initialised again and again."""

    name = "InitialisedOnce"
    subject = "torch.nn.init"
    says = "A parameter is initialised three times at most"
    expected = "one initialisation, or one over that of the layer"
    because = Reason(
        "initialised-repeatedly",
        "An initialisation that runs once for each of several modules or parameters undoes what others of them have "
        "set, such as small values of a last layer.",
        remedy="Call `model.apply(init)` once, at the end of the outermost constructor.",
    )
    right = "self.apply(init_weights)  # at the end of the outermost constructor"
    wrong = "for _ in self.parameters():\n    self.apply(init_weights)"
    place = Place.INITIAL
    depth = 3
    deviation = Deviation.TOO_OFTEN

    def places(self, run: Run) -> Examples:
        return each_process(run, _initialisations)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = variable_names(run, examples, np.array(broken))
        return Told(f"{listed(names)} {'is' if len(names) == 1 else 'are'} initialised more than three times.",
                    "initialised again and again")  # fmt: skip


class FrozenBeforeTraining(Law):
    """A parameter is trained at first and frozen for the rest of the run."""

    name = "FrozenBeforeTraining"
    subject = "torch.nn.Module.requires_grad_"
    says = "A parameter that is frozen on the way was not trained before"
    expected = "what is frozen is frozen before the first step"
    because = Reason(
        "frozen-too-late",
        "Parameters that shall stay as they were loaded have moved already if they are frozen after the first steps.",
        "https://docs.pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad",
        "Freeze before the optimizer is made.",
        "Schedules that freeze layer after layer, and models that are frozen while another one takes its turn.",
    )
    right = "freeze(model.backbone)\noptimizer = SGD(...)"
    wrong = "train_epoch(model)\nfreeze(model.backbone)"
    place = Place.HELD

    def places(self, run: Run) -> Examples:
        return each_process(run, _frozen_late)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)))
        return Told(f"{names} are trained at first, and frozen from then on.", "frozen after they were trained")


def _apart(process: Process, position: int) -> Examples:
    rows = process.measures("parameter.rms")
    if not len(rows):
        return EMPTY
    variable = process.events["args"][rows].astype(np.int64)
    sharing = process.events["args"][process.measures("parameter.shares")]
    return table(process, position, ~np.isin(variable, sharing), rows, variable)


def _staying(process: Process, position: int) -> Examples:
    """One example for each weight that steps change: whether it is still changed when the next step begins, in more
    than half of them.
    """
    variables = Variables.of(process)
    lines = variables.step_table
    if len(process.steps) <= _LEAST_STEPS or not len(lines.variable):
        return EMPTY
    first = variables.first_name[lines.variable]
    begin, end = lines.column("begin"), lines.column("end")
    following = {step.previous_end: step.begin for step in process.steps if step.previous_end}
    after = np.array([following.get(value, 0) for value in end.tolist()], dtype=np.int64)
    before, made = digests(process, first, begin), digests(process, first, end)
    later = digests(process, first, after)
    counted = (after > 0) & (before != made) & (before != 0)
    undone = counted & (later == before)
    total = np.bincount(first[counted], minlength=len(variables.symbols))
    gone = np.bincount(first[undone], minlength=len(variables.symbols))
    chosen = weights(process, np.flatnonzero(total >= _LEAST_STEPS))
    if not len(chosen):
        return EMPTY
    rows = dict(zip(first.tolist(), lines.column("row").tolist(), strict=True))
    return table(
        process, position, 2 * gone[chosen] <= total[chosen], [rows[number] for number in chosen.tolist()], chosen
    )


def _beginning(process: Process, position: int) -> Examples:
    """One example for each weight of a trained model that is trained itself, unless it begins with one number, or with
    ones among zeros, as an identity does. Layers that a module of torch's own has cloned, as `nn.TransformerEncoder`
    does, are alike for all of its users.
    """
    variables = Variables.of(process)
    ids = weights(process, variables.ids("parameter"))
    ids = ids[np.isin(variables.root[ids], sorted(trained_roots(process))) & requires_grad(process)[ids]]
    ids = ids[variables.held[ids]]
    spread = process.measures("parameter.mean")
    means = dict(zip(process.events["args"][spread].tolist(), process.events["value"][spread].tolist(), strict=True))
    size = process.measures("parameter.rms")
    scale = dict(zip(process.events["args"][size].tolist(), process.events["value"][size].tolist(), strict=True))
    varied = [_is_drawn(means.get(number, 0.0), scale.get(number, 0.0)) for number in ids.tolist()]
    ids = ids[np.array(varied, dtype=bool)] if len(ids) else ids
    if not len(ids):
        return EMPTY
    begun = variables.last(ids, variables.first_seen(ids))
    content = np.where(begun >= 0, process.events["digest"][np.maximum(begun, 0)], 0)
    keys = np.stack([variables.root[ids], content.astype(np.int64)], axis=1)
    _, inverse = np.unique(keys, axis=0, return_inverse=True)
    makers = Labels.of(np.arange(len(ids)), _makers(process, ids))
    pairs = np.unique(np.stack([inverse.reshape(-1), makers.codes.astype(np.int64)], axis=1), axis=0)
    alone = np.bincount(pairs[:, 0], minlength=len(ids)) == 1
    return table(process, position, alone[inverse.reshape(-1)], np.maximum(begun, 0), ids)


def _is_drawn(mean: float, scale: float) -> bool:
    """Whether values of this mean and root mean square may have been drawn: not of one number, not of 0 and 1 alone."""
    return abs(abs(mean) - scale) > 1e-6 * scale and abs(mean - scale * scale) > 1e-6 * scale * scale


def _makers(process: Process, ids: Ints) -> list[str]:
    """What has made each weight: the outermost module of torch's own that consists of others, or else its own name."""
    symbols = Variables.of(process).symbols
    own = {(symbol.get("root", 0), symbol.get("path", "")) for symbol in process.raw.symbols["mod"][1:]
           if symbol.get("class") in _CLONING}  # fmt: skip
    makers = []
    for number in ids.tolist():
        root, parts = symbols[number].get("root", 0), str(symbols[number].get("name", "")).split(".")
        paths = (".".join(parts[:length]) for length in range(len(parts)))
        makers.append(next((f"{root} {path}" for path in paths if (root, path) in own), f"{root} {'.'.join(parts)} "))
    return makers


def _initialisations(process: Process, position: int) -> Examples:
    rows = process.measures("parameter.initialised")
    values = process.events["value"][rows]
    rows, values = rows[values > 0], values[values > 0]
    if not len(rows):
        return EMPTY
    return table(process, position, values <= _OFTEN, rows, process.events["args"][rows].astype(np.int64))


def _frozen_late(process: Process, position: int) -> Examples:
    """One example for each parameter that becomes frozen between two steps and stays so for the rest of the run, while
    the optimizer that holds it goes on: a teacher is trained by another one than its student.
    """
    variables = Variables.of(process)
    ids = variables.ids("parameter")
    flag = variables.companion("requires_grad")[ids]
    if not len(process.steps) or not len(ids):
        return EMPTY
    start, end = process.steps[0].begin, process.steps[-1].begin
    at = variables.state(flag, np.full(len(ids), start))
    last = variables.state(flag, np.full(len(ids), end))
    before = np.where(at >= fmt.FALSE, at == fmt.TRUE, requires_grad(process)[ids])
    frozen = (flag > 0) & (last == fmt.FALSE)
    changes = _changes(process, flag, start, end)
    chosen = frozen & (before | (changes > 0)) & (changes <= 1)
    kept = chosen | (frozen & ~before)
    if not kept.any():
        return EMPTY
    moved: Bools = variables.changed(ids, np.full(len(ids), start - 1), np.full(len(ids), end))
    moved &= np.isin(ids, variables.first_name[variables.membership(process.steps[-1].optimizer, end).variables])
    moved &= process.steps[0].optimizer == process.steps[-1].optimizer
    return table(process, position, ~(chosen & moved)[kept], np.full(int(kept.sum()), process.steps[0].row), ids[kept])


def _changes(process: Process, flag: Ints, after: int, until: int) -> Ints:
    """How often each flag changes in an interval."""
    variables = Variables.of(process)
    rows = variables.rows
    events = process.events
    real = rows[(events["old"][rows] != fmt.UNSEEN) & (events["seq"][rows] > after) & (events["seq"][rows] <= until)]
    counts = np.bincount(events["subject"][real], minlength=len(variables.symbols))
    return np.asarray(counts[flag])
