"""Parameters: each in memory of its own, changed by steps and by nothing else, and copies that follow.

A momentum encoder that is the query encoder under another name, an average that keeps its first weights, an update that
somebody writes back: the program runs, and part of it does nothing.
"""

from __future__ import annotations

import numpy as np

from pytest_traincheck.relations.averages import Averages, Keeps
from pytest_traincheck.relations.base import EMPTY, Examples, listed, variable_names
from pytest_traincheck.relations.carried import Carried, StateIsKept
from pytest_traincheck.relations.context import requires_grad, trained_roots, variable_context
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, in_step, table, transferable
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Deviation, Place
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints
from pytest_traincheck.trace.stages import EVAL, TRAIN
from pytest_traincheck.trace.variables import Variables

_OPTIM = "https://docs.pytorch.org/docs/stable/optim.html"
_AVERAGES = "https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema"
_SERIAL = "https://docs.pytorch.org/docs/stable/notes/serialization.html"
_INIT = "https://docs.pytorch.org/docs/stable/nn.init.html"
_OFTEN = 3
"""Initialisations of one parameter: by its layer, by the model, and by one that it lies in."""
_LEAST_STEPS = 3
_HALF, _NOTHING, _SAME = 0.5, 0.001, 0.02
"""Share of itself that an average keeps at least; what counts as none, and as the same."""


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
        "Copy with `copy.deepcopy(model)` or `p.detach().clone()`; `state_dict()` and `.data` return the memory itself.",
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
        _OPTIM,
        "Look for `load_state_dict`, `copy_` and collectives between the steps.",
        "Meta-learning and line searches, which return to where they began.",
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


class CopyFollows(Law):
    """A copy of a trained model that is only evaluated keeps its first values."""

    name = "CopyFollows"
    subject = "torch.optim.swa_utils.AveragedModel.update_parameters"
    says = "A copy of a trained model that is evaluated changes with it"
    expected = "the copy is updated"
    because = Reason(
        "copy-never-updated",
        "An average of the weights that is never updated is the model as it was before training, and so are its metrics.",
        _AVERAGES,
        "Update the copy after each optimizer step.",
        "A copy of the untrained model that results are compared with.",
    )
    right = "optimizer.step()\nema.update_parameters(model)"
    wrong = "ema = AveragedModel(model)\n...\nevaluate(ema)  # never updated"
    place = Place.AVERAGING
    depth = 4
    deviation = Deviation.NEVER

    def places(self, run: Run) -> Examples:
        return each_process(run, _copies)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.module_name(row)}` began as a copy of a model that is trained, is evaluated, and still has "
                    "its first values.", "the copy never changes")  # fmt: skip


class CopyKeepsMost(Law):
    """An average of weights keeps less of itself than it takes of the model."""

    name = "CopyKeepsMost"
    subject = "torch.optim.swa_utils.get_ema_multi_avg_fn"
    says = "A copy that follows a model by averages keeps at least half of itself in an update"
    expected = "a decay near 1"
    because = Reason(
        "decay-swapped",
        "A moving average with a decay below one half is all but the last weights: decay and 1 - decay are swapped.",
        _AVERAGES,
        "Write `copy.lerp_(p, 1 - decay)` with a decay of 0.99 and more.",
    )
    right = "mine.lerp_(p, 1 - decay)"
    wrong = "mine.lerp_(p, decay)"
    place = Place.AVERAGING
    depth = 2

    def places(self, run: Run) -> Examples:
        return _shares(run)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told("An average of weights keeps less than half of itself in an update: its decay and what is left of it "
                    "are swapped.", "a decay below one half")  # fmt: skip


class StateKept(Law):
    """An optimizer loses its state between steps."""

    name = "StateKept"
    subject = "torch.optim.Optimizer"
    says = "An optimizer keeps its state (momentum, moments) from step to step"
    expected = "state is carried on"
    because = Reason(
        "optimizer-state-lost",
        "Momentum, moments and step counts that begin anew make of Adam or L-BFGS little more than a signed gradient.",
        _OPTIM,
        "Make the optimizer once, before the loop.",
        "A restart that is meant.",
    )
    right = "optimizer = Adam(model.parameters())\nfor batch in loader: ..."
    wrong = "for batch in loader:\n    optimizer = Adam(model.parameters())"
    place = Place.RESUMED

    def places(self, run: Run) -> Examples:
        names = {process.names.optimizers[step.optimizer] for process in run.processes for step in process.steps}
        parts = [Carried().examples(StateIsKept(name), run) for name in sorted(names)]
        return transferable(Examples.concatenate(parts))

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.api[row]}` finds no state of its step before, first {in_step(run, examples, broken)}: it "
                    "was made anew, or cleared.", "state is lost between steps")  # fmt: skip


class OptimizerOnce(Law):
    """A new optimizer is made for each step or two."""

    name = "OptimizerOnce"
    subject = "torch.optim.Optimizer"
    says = "An optimizer makes more than one step before another one takes over its parameters"
    expected = "one optimizer for the whole training"
    because = Reason(
        "optimizer-made-anew",
        "An optimizer that is made anew for each step forgets its momentum, moments and history in between.",
        _OPTIM,
        "Make the optimizer once, before the loop.",
        "Inner loops that begin anew, as in meta-learning.",
    )
    right = "optimizer = LBFGS(model.parameters())\nfor batch in loader: ..."
    wrong = "for batch in loader:\n    optimizer = LBFGS(model.parameters())"
    place = Place.RESUMED
    deviation = Deviation.TOO_OFTEN

    def places(self, run: Run) -> Examples:
        return each_process(run, _made_anew)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told(f"A new optimizer takes over the parameters of another one after a single step, first "
                    f"{in_step(run, examples, broken)}.", "an optimizer for each step")  # fmt: skip


class BeginsDifferent(Law):
    """Two weights of a model begin with the same values."""

    name = "BeginsDifferent"
    subject = "torch.nn.init"
    says = "No two weights of a model begin with the same values"
    expected = "each weight is drawn by itself"
    because = Reason(
        "weights-begin-alike",
        "Layers that begin alike are copies of one that was drawn once, or drawn with one seed; and a weight that begins "
        "as another one and is no longer tied to it was cut loose from it.",
        _INIT,
        "Make each layer by itself; tie weights by assigning the parameter: `head.weight = embedding.weight`.",
        "Layers that are cloned on purpose, as `nn.TransformerEncoder` does, and a copy that follows.",
    )
    right = "self.layers = nn.ModuleList(Block() for _ in range(6))"
    wrong = "self.layers = nn.ModuleList(copy.deepcopy(block) for _ in range(6))"
    place = Place.INITIAL
    depth = 3

    def places(self, run: Run) -> Examples:
        return each_process(run, _beginning)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)))
        return Told(f"{names} begin with the same values as another weight of their model.", "weights begin alike")


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
        _INIT,
        "Call `model.apply(init)` once, at the end of the outermost constructor.",
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
        "https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation",
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


def _digests(process: Process, variable: Ints, seq: Ints) -> Ints:
    rows = Variables.of(process).last(variable, seq)
    return np.where(rows >= 0, process.events["digest"][np.maximum(rows, 0)], 0).astype(np.int64)


def _weights(process: Process, ids: Ints) -> Ints:
    """Those with two dimensions or more."""
    return ids[variable_context(process, ids)["shape"].isin(["matrix"])] if len(ids) else ids


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
    before, made = _digests(process, first, begin), _digests(process, first, end)
    later = _digests(process, first, after)
    counted = (after > 0) & (before != made) & (before != 0)
    undone = counted & (later == before)
    total = np.bincount(first[counted], minlength=len(variables.symbols))
    gone = np.bincount(first[undone], minlength=len(variables.symbols))
    chosen = _weights(process, np.flatnonzero(total >= _LEAST_STEPS))
    if not len(chosen):
        return EMPTY
    rows = dict(zip(first.tolist(), lines.column("row").tolist(), strict=True))
    return table(process, position, 2 * gone[chosen] <= total[chosen], [rows[number] for number in chosen.tolist()], chosen)


def _copies(process: Process, position: int) -> Examples:
    """One example for each model that no optimizer holds, that began as a copy of one that is trained and has changed
    by then, and that is called in evaluation alone, after some steps.
    """
    variables = Variables.of(process)
    if len(process.steps) < _LEAST_STEPS:
        return EMPTY
    entries = process.forward_rows
    roots = np.array([symbol.get("root", 0) for symbol in process.raw.symbols["mod"]], dtype=np.int64)
    called = roots[process.events["mod"][entries]]
    ids = _weights(process, variables.ids("parameter", tied=True))
    begun = variables.last(ids, variables.first_seen(ids))
    contents = np.where(begun >= 0, process.events["digest"][np.maximum(begun, 0)], 0)
    trained = set(variables.root[variables.held].tolist()) & trained_roots(process)
    rows, holds = [], []
    for root in np.unique(called).tolist():
        mine = entries[called == root]
        evaluated = mine[process.window[mine] >= _LEAST_STEPS - 1]
        own = variables.root[ids] == root
        if root in trained or variables.held[ids[own]].any() or not len(evaluated) or not own.any():
            continue
        alone = (process.stage[mine] == EVAL).all() and not _within_training(process, mine)
        copied = np.isin(contents[own], contents[np.isin(variables.root[ids], sorted(trained))])
        if not alone or not copied.all():
            continue
        until = np.full(int(own.sum()), int(process.events["seq"][evaluated[-1]]))
        moved = variables.changed(ids[own], np.full(len(until), process.steps[0].begin), until)
        rows.append(int(evaluated[-1]))
        holds.append(bool(moved.any()))
    return table(process, position, holds, rows) if rows else EMPTY


def _within_training(process: Process, entries: Ints) -> bool:
    """Whether a model is called in most steps between the forward and the backward pass of a training step, as teachers
    and references are.
    """
    backward = process.events["seq"][process.rows_of_type("autograd")]
    training = process.entry_rows[process.stage[process.entry_rows] == TRAIN]
    seq = process.events["seq"]
    last_train = np.searchsorted(seq[training], seq[entries]) - 1
    known = last_train >= 0
    if not known.any() or not len(backward):
        return False
    begins = seq[training[last_train[known]]]
    between = np.searchsorted(backward, seq[entries[known]]) == np.searchsorted(backward, begins)
    return bool(between.any()) or len(np.unique(process.window[entries])) > process.windows // 2 + 1


def _shares(run: Run) -> Examples:
    """One example for each copy that keeps the same share of itself in two updates: a decay that grows in the first
    steps may begin small. One that keeps nothing is copied outright.
    """
    averages = Averages()
    kept: dict[tuple[int, str, str], list[tuple[float, int]]] = {}
    for hypothesis in averages.hypotheses(run):
        claim, found = hypothesis.claim, averages.examples(hypothesis.claim, run)
        if isinstance(claim, Keeps) and len(found):
            key = (int(found.process[0]), claim.copy, claim.of)
            kept.setdefault(key, []).append((claim.kept, int(found.row[0])))
    parts = []
    for (position, _, _), updates in kept.items():
        shares = [share for share, _ in updates if share > _NOTHING]
        if len(shares) > 1 and max(shares) - min(shares) < _SAME * max(shares):
            parts.append(table(run.processes[position], position, [min(shares) >= _HALF], [updates[0][1]]))
    return Examples.concatenate(parts)


def _made_anew(process: Process, position: int) -> Examples:
    """One example for each optimizer that makes a step while none that holds the same parameters has made more."""
    variables = Variables.of(process)
    held: dict[int, frozenset[int]] = {}
    counts: dict[int, int] = {}
    for step in process.steps:
        if step.optimizer not in held:
            members = variables.membership(step.optimizer, step.begin).variables
            held[step.optimizer] = frozenset(variables.first_name[members].tolist())
        counts[step.optimizer] = counts.get(step.optimizer, 0) + 1
    families: dict[frozenset[int], list[int]] = {}
    for number, members in held.items():
        families.setdefault(members, []).append(number)
    first = {step.optimizer: step.row for step in reversed(process.steps)}
    rows, holds = [], []
    for numbers in families.values():
        if sum(counts[number] for number in numbers) >= _LEAST_STEPS:
            rows.append(first[numbers[-1]])
            holds.append(len(numbers) < _LEAST_STEPS or any(counts[number] > 1 for number in numbers))
    return table(process, position, holds, rows) if rows else EMPTY


def _beginning(process: Process, position: int) -> Examples:
    """One example for each weight of a trained model that is trained itself, unless it begins with one number."""
    variables = Variables.of(process)
    ids = _weights(process, variables.ids("parameter"))
    ids = ids[np.isin(variables.root[ids], sorted(trained_roots(process))) & requires_grad(process)[ids]]
    ids = ids[variables.held[ids]]
    spread = process.measures("parameter.mean")
    means = dict(zip(process.events["args"][spread].tolist(), process.events["value"][spread].tolist(), strict=True))
    size = process.measures("parameter.rms")
    scale = dict(zip(process.events["args"][size].tolist(), process.events["value"][size].tolist(), strict=True))
    varied = [abs(abs(means.get(number, 0.0)) - scale.get(number, 0.0)) > 1e-6 * scale.get(number, 0.0)
              for number in ids.tolist()]  # fmt: skip
    ids = ids[np.array(varied, dtype=bool)] if len(ids) else ids
    if not len(ids):
        return EMPTY
    begun = variables.last(ids, variables.first_seen(ids))
    content = np.where(begun >= 0, process.events["digest"][np.maximum(begun, 0)], 0)
    keys = np.stack([variables.root[ids], content.astype(np.int64)], axis=1)
    _, inverse, counts = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    return table(process, position, counts[inverse.reshape(-1)] == 1, np.maximum(begun, 0), ids)


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
