"""Models beside the one that is trained: teachers that know something, copies that begin as copies, frozen norms that
stand still, and losses that are not 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_traincheck.relations import vocabulary
from pytest_traincheck.relations.base import EMPTY, Examples, listed, variable_names
from pytest_traincheck.relations.context import module_roots, requires_grad, trained_roots
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, table
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Place
from pytest_traincheck.relations.vocabulary import F, is_loss
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Bools, Ints
from pytest_traincheck.trace.stages import TRAIN
from pytest_traincheck.trace.variables import Variables

_LOAD = "https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.load_state_dict"
_AVERAGES = "https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema"
_NORM = "https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html"
_FREEZE = "https://docs.pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad"
_LEAST = 3
_MOST_NAMES = ("requires_grad", "require_grad", "requires_gradient", "require_gradient", "required_grad")


class TeacherKnows(Law):
    """A model that is only asked in training has random weights."""

    name = "TeacherKnows"
    subject = _LOAD.rpartition("#")[2]
    says = "A model that is asked without gradients in training steps, and never changes, was loaded or copied"
    expected = "a teacher with trained weights"
    because = Reason(
        "random-teacher",
        "A teacher or reference that keeps the weights it was drawn with teaches noise.",
        _LOAD,
        "Load its weights, or copy those of a trained model, before training.",
        "Random features and random targets that are meant.",
    )
    right = "teacher.load_state_dict(torch.load(path))"
    wrong = "teacher = Net()  # and nothing else"
    place = Place.INITIAL
    depth = 3

    def places(self, run: Run) -> Examples:
        return each_process(run, _teachers)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.module_name(row)}` is asked in training steps, and still has the random weights that it was "
                    "made with.", "a model with random weights is asked")  # fmt: skip


class CopyBeginsEqual(Law):
    """A copy that follows a model begins with other weights."""

    name = "CopyBeginsEqual"
    subject = "copy.deepcopy"
    says = "A copy that follows a trained model begins with the model's weights"
    expected = "the copy begins as a copy"
    because = Reason(
        "follower-begins-apart",
        "A target network, momentum encoder or average that is drawn by itself is for long a mixture of two models that "
        "have nothing to do with each other.",
        _AVERAGES,
        "Make it with `copy.deepcopy(model)`, or load the model's state into it, before the first step.",
        "A copy that takes all of the model at its first update.",
    )
    right = "target = copy.deepcopy(model)"
    wrong = "target = Net()  # drawn by itself"
    place = Place.INITIAL
    depth = 3

    def places(self, run: Run) -> Examples:
        return each_process(run, _followers)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)))
        return Told(f"{names} follow parameters that are trained, and begin with other values.",
                    "the copy begins with other weights")  # fmt: skip


class FrozenNormStill(Law):
    """BatchNorm of a frozen part takes statistics of the batch in training."""

    name = "FrozenNormStill"
    subject = "torch.nn.BatchNorm2d"
    says = "BatchNorm whose parameters are frozen is in eval mode in training steps"
    expected = "frozen BatchNorm in eval mode"
    because = Reason(
        "frozen-batchnorm-in-train-mode",
        "Freezing parameters does not freeze running statistics. In train mode a frozen layer normalises with the batch "
        "and moves its statistics: the pre-trained features change all the same.",
        _NORM,
        "Call `eval()` on frozen parts after each `model.train()`, or override `train`.",
        "Statistics that shall adapt to new data.",
    )
    right = "model.train()\nmodel.backbone.eval()"
    wrong = "model.backbone.requires_grad_(False)\nmodel.train()"
    place = Place.STATISTICS

    def places(self, run: Run) -> Examples:
        return each_process(run, _frozen_norms)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.module_name(row)}` is frozen, and takes statistics of the batch in training steps.",
                    "frozen BatchNorm in train mode")  # fmt: skip


class LossNotZero(Law):
    """A loss is exactly 0 in every step."""

    name = "LossNotZero"
    subject = "torch.nn.functional"
    says = "A loss that is trained with is not 0 in all steps"
    expected = "a loss other than 0"
    because = Reason(
        "loss-always-zero",
        "A loss that is 0 from the first step on compares something with itself, or all of its targets are ignored.",
        "https://docs.pytorch.org/docs/stable/nn.html#loss-functions",
        "Look at what it is given as input and as target.",
    )
    right = "loss = F.mse_loss(student(x), teacher(x))"
    wrong = "loss = F.mse_loss(student(x), student(x).detach())"
    place = Place.LOSS
    depth = 3

    def places(self, run: Run) -> Examples:
        return each_process(run, _zero_losses)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.api[row]}` is 0 in every step.", "a loss of 0")


class FlagsOfParameters(Law):
    """`requires_grad` is set on a module, where it does nothing."""

    name = "FlagsOfParameters"
    subject = "torch.nn.Module.requires_grad_"
    says = "`requires_grad` is set on parameters or by `requires_grad_()`, and not as an attribute of a module"
    expected = "`module.requires_grad_(False)`"
    because = Reason(
        "requires-grad-on-module",
        "A module has no `requires_grad`. Assigning to it makes a plain attribute that nobody reads, and the parameters "
        "below it are trained.",
        _FREEZE,
        "Call `module.requires_grad_(False)`.",
    )
    right = "model.stem.requires_grad_(False)"
    wrong = "model.stem.requires_grad = False"
    place = Place.HELD

    def places(self, run: Run) -> Examples:
        return each_process(run, _flags)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told("`requires_grad` is set as an attribute of a module, which freezes nothing.",
                    "an attribute of a module that nobody reads")  # fmt: skip


class DropoutStays(Law):
    """Dropout is switched off by its rate on the way."""

    name = "DropoutStays"
    subject = "torch.nn.functional.dropout"
    says = "A dropout layer that is active in the first training step stays active in the others"
    expected = "dropout with one rate"
    because = Reason(
        "dropout-rate-not-restored",
        "A rate that is set to 0 for sampling or evaluation and not set back switches dropout off for the rest of the "
        "training. `eval()` does that for a time and `train()` undoes it.",
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout.html",
        "Use `eval()` and `train()`.",
        "A schedule of rates.",
    )
    right = "model.eval()\nsample(model)\nmodel.train()"
    wrong = "for m in dropouts:\n    m.p = 0.0\nsample(model)"
    place = Place.FORWARD

    def places(self, run: Run) -> Examples:
        return each_process(run, _rates)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"Dropout of `{process.module_name(row)}` has a rate of 0 from step {process.step_number(row)} on.",
                    "a rate of 0 after the first steps")  # fmt: skip


def _arguments(process: Process, row: int) -> Mapping[str, object]:
    return process.raw.symbols["args"][int(process.events["args"][row])].get("values") or {}


def _weights(process: Process) -> Ints:
    """Parameters with two dimensions or more."""
    variables = Variables.of(process)
    ids = variables.ids("parameter")
    large = [len(variables.symbols[number].get("shape") or ()) > 1 for number in ids.tolist()]
    return ids[np.array(large, dtype=bool)] if len(ids) else ids


def _first_contents(process: Process, ids: Ints) -> Ints:
    variables = Variables.of(process)
    rows = variables.last(ids, variables.first_seen(ids))
    return np.where(rows >= 0, process.events["digest"][np.maximum(rows, 0)], 0).astype(np.int64)


def _loaded(process: Process) -> Ints:
    """Variables that some load has given."""
    rows = process.measures("load.given")
    return np.unique(process.events["args"][rows[process.events["value"][rows] > 0]]).astype(np.int64)


def _ever_moved(process: Process, ids: Ints) -> Bools:
    return Variables.of(process).changed(ids, np.zeros(len(ids), dtype=np.int64), np.full(len(ids), _EVER))


_EVER = np.iinfo(np.int32).max


def _teachers(process: Process, position: int) -> Examples:
    """One example for each model that no optimizer holds and that is asked without gradients in most training steps,
    as long as training goes on.
    """
    variables = Variables.of(process)
    ids, roots, entries = _weights(process), module_roots(process), process.forward_rows
    if process.windows < _LEAST or not len(ids):
        return EMPTY
    drawn = process.measures("parameter.initialised")
    made = process.events["args"][drawn[process.events["value"][drawn] > 0]].astype(np.int64)
    contents, saved = _first_contents(process, ids), _loaded(process)
    backward = process.events["seq"][process.rows_of_type("autograd")]
    called = roots[process.events["mod"][entries]]
    rows, holds = [], []
    for root in np.unique(called).tolist():
        mine, own = entries[called == root], ids[variables.root[ids] == root]
        mine = mine[process.grad_mode[mine] == 0]
        within = _in_step(process, mine, backward)
        steps = np.unique(process.window[mine[within]])
        if not len(own) or variables.held[own].any() or 2 * len(steps) < process.windows:
            continue
        known = np.isin(own, saved) | ~np.isin(own, made) | _ever_moved(process, own)
        known |= np.isin(contents[variables.root[ids] == root], contents[variables.root[ids] != root])
        rows.append(int(mine[within][0]))
        holds.append(bool(known.any()))
    return table(process, position, holds, rows) if rows else EMPTY


def _in_step(process: Process, rows: Ints, backward: Ints) -> Bools:
    """Which calls a backward pass follows before the next step."""
    begins = np.array([step.begin for step in process.steps], dtype=np.int64)
    seq = process.events["seq"][rows].astype(np.int64)
    following = np.append(begins, _EVER)[np.searchsorted(begins, seq)]
    return np.asarray((np.searchsorted(backward, following) > np.searchsorted(backward, seq)) & (following < _EVER))


def _followers(process: Process, position: int) -> Examples:
    """One example for each weight of a part that no optimizer holds and that changes in steps, where a trained part has
    the same names and shapes.
    """
    variables = Variables.of(process)
    ids = _weights(process)
    if len(process.steps) < 2 or not len(ids):
        return EMPTY
    contents = dict(zip(ids.tolist(), _first_contents(process, ids).tolist(), strict=True))
    start = np.full(len(ids), process.steps[0].begin)
    moves = variables.changed(ids, start, np.full(len(ids), process.steps[-1].end))
    names = {number: _endings(process, number) for number in ids.tolist()}
    trained = [number for number in ids[variables.held[ids] & moves].tolist()]
    idle = ids[~variables.held[ids] & moves & ~np.isin(ids, _loaded(process))].tolist()
    initial = {contents[number] for number in trained}
    sources = {ending for number in trained for ending in names[number]}
    chosen = [number for number in idle if names[number] & sources]
    if not chosen:
        return EMPTY
    rows = variables.last(np.array(chosen), start[: len(chosen)])
    return table(process, position, [contents[number] in initial for number in chosen], np.maximum(rows, 0), chosen)


def _endings(process: Process, number: int) -> set[tuple[str, tuple[int, ...]]]:
    """What two parameters of copies have in common: the name below the model, or below a part of it, and the shape."""
    symbol = Variables.of(process).symbols[number]
    name, shape = str(symbol.get("name", "")), tuple(symbol.get("shape") or ())
    found = {(name, shape)}
    if "." in name:
        found.add((name.partition(".")[2], shape))
    return found


def _frozen_norms(process: Process, position: int) -> Examples:
    """One example for each BatchNorm with parameters of a model that is trained: its calls in training steps."""
    variables = Variables.of(process)
    rows = np.flatnonzero(process.is_call & process.api.isin({f"{F}batch_norm"}))
    rows = rows[(process.stage[rows] == TRAIN) & (process.grad_mode[rows] == 1)]
    modules = process.events["mod"][rows]
    _, first = np.unique(modules, return_index=True)
    flags = requires_grad(process)
    owned: dict[tuple[int, str], list[int]] = {}
    for number in variables.ids("parameter").tolist():
        symbol = variables.symbols[number]
        owned.setdefault((symbol.get("root", 0), str(symbol.get("name", "")).rpartition(".")[0]), []).append(number)
    kept, holds = [], []
    trained = trained_roots(process)
    for row in sorted(rows[first].tolist()):
        symbol = process.raw.symbols["mod"][int(process.events["mod"][row])]
        mine = owned.get((symbol.get("root", 0), str(symbol.get("path", ""))), [])
        if not mine or symbol.get("root", 0) not in trained or any(flags[number] for number in mine):
            continue
        same = rows[modules == process.events["mod"][row]]
        asked = [_arguments(process, call).get("training") is True for call in same.tolist()]
        wrong = [call for call, active in zip(same.tolist(), asked, strict=True) if active]
        kept.append(wrong[0] if wrong else row)
        holds.append(not wrong)
    return table(process, position, holds, kept) if kept else EMPTY


def _zero_losses(process: Process, position: int) -> Examples:
    """One example for each line that calls a loss in three training steps or more."""
    losses = {name for name in process.api.values if is_loss(name)}
    rows = np.flatnonzero(process.is_call & process.api.isin(losses))
    rows = vocabulary.without_metrics(process, rows[(process.stage[rows] == TRAIN) & (process.grad_mode[rows] == 1)])
    values = process.events["value"][rows]
    rows, values = rows[np.isfinite(values)], values[np.isfinite(values)]
    places = process.events["src"][rows]
    kept, holds = [], []
    for place in np.unique(places).tolist():
        mine = places == place
        if len(np.unique(process.window[rows[mine]])) >= _LEAST:
            kept.append(int(rows[mine][0]))
            holds.append(bool((np.abs(values[mine]) > _ZERO).any()))
    return table(process, position, holds, kept) if kept else EMPTY


_ZERO = 1e-7


def _flags(process: Process, position: int) -> Examples:
    """One example for each model that is trained and whose attributes are known: whether a module of it has such."""
    found: dict[int, bool] = {}
    for symbol in process.raw.symbols.get("attribute", ())[1:]:
        module = process.raw.symbols["mod"][int(symbol.get("mod", 0))]
        root = int(module.get("root", 0))
        set_here = any(name in _MOST_NAMES for name in (symbol.get("values") or {}))
        found[root] = found.get(root, False) or set_here
    trained = trained_roots(process)
    kept = [root for root in found if root in trained]
    if not kept or not process.steps:
        return EMPTY
    return table(process, position, [not found[root] for root in kept], [process.steps[0].row] * len(kept))


def _rates(process: Process, position: int) -> Examples:
    """One example for each dropout that is active when it is first called in training."""
    rows = np.flatnonzero(process.is_call & process.api.isin({name for name in vocabulary.STOCHASTIC if "dropout" in name}))
    rows = rows[(process.stage[rows] == TRAIN) & (process.grad_mode[rows] == 1)]
    first: dict[int, float] = {}
    wrong: dict[int, int] = {}
    start: dict[int, int] = {}
    for row in rows.tolist():
        values, module = _arguments(process, row), int(process.events["mod"][row])
        rate = values.get("p")
        if values.get("training") is not True or not isinstance(rate, (int, float)) or not module:
            continue
        start.setdefault(module, row)
        if first.setdefault(module, float(rate)) > 0 and rate == 0:
            wrong.setdefault(module, row)
    kept = [module for module, rate in first.items() if rate > 0]
    if not kept:
        return EMPTY
    return table(process, position, [module not in wrong for module in kept], [wrong.get(m, start[m]) for m in kept])
