"""Layers and losses that do something else than they seem to, or nothing.

Frozen norms that move, flags that nobody reads, dropout that was switched off for a sample, a loss that is 0.
"""

from __future__ import annotations

import numpy as np

from pytest_traincheck.relations import vocabulary
from pytest_traincheck.relations.base import EMPTY, Examples
from pytest_traincheck.relations.context import requires_grad, trained_roots
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, table
from pytest_traincheck.relations.laws.places import arguments, calls_of
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Place
from pytest_traincheck.relations.vocabulary import F, is_loss
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.stages import TRAIN
from pytest_traincheck.trace.variables import Variables

_NORM = "https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html"
_FREEZE = "https://docs.pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad"
_LEAST = 3
_MOST_NAMES = ("requires_grad", "require_grad", "requires_gradient", "require_gradient", "required_grad")
_ZERO = 1e-7


class FrozenNormStill(Law):
    """BatchNorm of a frozen part takes statistics of the batch in training."""

    name = "FrozenNormStill"
    subject = "torch.nn.BatchNorm2d"
    says = "BatchNorm whose parameters are frozen is in eval mode in training steps"
    expected = "frozen BatchNorm in eval mode"
    because = Reason(
        "frozen-batchnorm-in-train-mode",
        "Freezing parameters does not freeze running statistics. In train mode a frozen layer normalises with the "
        "batch and moves its statistics: the pre-trained features change all the same.",
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
        remedy="Look at what it is given as input and as target.",
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
        "A module has no `requires_grad`. Assigning to it makes a plain attribute that nobody reads, and the "
        "parameters below it are trained.",
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


def _frozen_norms(process: Process, position: int) -> Examples:
    """One example for each BatchNorm with parameters of a model that is trained: its calls in training steps."""
    variables = Variables.of(process)
    rows = calls_of(process, {f"{F}batch_norm"})
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
        asked = [arguments(process, call).get("training") is True for call in same.tolist()]
        wrong = [call for call, active in zip(same.tolist(), asked, strict=True) if active]
        kept.append(wrong[0] if wrong else row)
        holds.append(not wrong)
    return table(process, position, holds, kept) if kept else EMPTY


def _zero_losses(process: Process, position: int) -> Examples:
    """One example for each line that calls a loss in three training steps or more."""
    losses = {name for name in process.api.values if is_loss(name)}
    rows = calls_of(process, losses)
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
    rows = np.flatnonzero(
        process.is_call & process.api.isin({name for name in vocabulary.STOCHASTIC if "dropout" in name})
    )
    rows = rows[(process.stage[rows] == TRAIN) & (process.grad_mode[rows] == 1)]
    first: dict[int, float] = {}
    wrong: dict[int, int] = {}
    start: dict[int, int] = {}
    for row in rows.tolist():
        values, module = arguments(process, row), int(process.events["mod"][row])
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
