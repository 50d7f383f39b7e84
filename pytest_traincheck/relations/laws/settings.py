"""Settings of optimizers: a learning rate that is not 0, groups that are not empty, decay where it belongs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples, listed, variable_names
from pytest_traincheck.relations.covered import construction_row
from pytest_traincheck.relations.hyperparameter import learning_rates
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, seen, table
from pytest_traincheck.relations.laws.places import labels_of
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Deviation, Place
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints
from pytest_traincheck.trace.variables import Variables

_GROUPS = "https://docs.pytorch.org/docs/stable/optim.html#per-parameter-options"
_SCHEDULE = "https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler."
_PER_BATCH = ("OneCycleLR", "CyclicLR")
"""Schedulers that count batches, as their documentation says."""
_LEAST = 4
_OF_LAYERS = ("bias", "weight")
"""How the parameters of layers are called."""


class RateNotZero(Law):
    """The learning rate of an optimizer is 0 in all steps. A group may be frozen by its rate, where others are not."""

    name = "RateNotZero"
    subject = "torch.optim.Optimizer.lr"
    says = "The learning rate of an optimizer is above 0 in some step and some group, and never below"
    expected = "a learning rate above 0"
    because = Reason(
        "learning-rate-zero",
        "With a learning rate of 0 steps change nothing; with one below 0 they climb the loss.",
        remedy="Look at the warm-up: one that is never stepped, or that counts in whole numbers, stays at 0.",
    )
    right = "LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / warmup))"
    wrong = "LambdaLR(optimizer, lambda step: step // warmup)"
    place = Place.RATE

    def places(self, run: Run) -> Examples:
        return each_process(run, _rates)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"The learning rate of `{process.api[row]}` is {seen(examples, broken[0])} in every step.",
                    f"a learning rate of {seen(examples, broken[0])}")  # fmt: skip


class OptimizerNotEmpty(Law):
    """An optimizer steps that holds no parameters at all. One empty group among others does no harm."""

    name = "OptimizerNotEmpty"
    subject = "torch.optim.Optimizer.param_groups"
    says = "An optimizer that steps holds parameters"
    expected = "parameters in the groups of the optimizer"
    because = Reason(
        "empty-optimizer",
        "An optimizer all of whose groups are empty was made with a filter that nothing passes: its steps do nothing.",
        remedy="Compare names as `named_parameters()` has them: full names with dots, and the library's own words for "
        "norms.",
    )
    right = 'SGD([{"params": [p for n, p in model.named_parameters() if n.startswith("head.")]}], lr=0.1)'
    wrong = 'SGD([{"params": [p for n, p in model.named_parameters() if n == "head"]}], lr=0.1)'
    place = Place.HELD
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, _groups)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(
            f"`{process.names.optimizers[int(process.events['opt'][row])]}` steps and holds no parameters.",
            "no parameters in any group",
        )


class DecayWithoutVectors(Law):
    """Weight decay is switched off for some parameters, and some norms or biases have it all the same."""

    name = "DecayWithoutVectors"
    subject = "torch.optim.AdamW.weight_decay"
    says = "Where weight decay is switched off for some parameters, no norm, bias or other vector has it"
    expected = "no weight decay on norms and biases"
    because = Reason(
        "decay-of-norms-and-biases",
        "Somebody has taken parameters out of weight decay, and a list of names missed some: norms that decay towards "
        "0 weaken what they scale.",
        _GROUPS,
        "Go by the number of dimensions: decay for `p.ndim >= 2`, none for the others.",
        "Vectors that are meant to decay.",
    )
    right = "decay = [p for p in model.parameters() if p.ndim >= 2]"
    wrong = 'no_decay = [p for n, p in named if "LayerNorm" in n]  # the model calls them `norm1`'
    place = Place.CHOICE
    depth = 2

    def places(self, run: Run) -> Examples:
        return each_process(run, _decayed)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)))
        return Told(f"{names} have weight decay, though others of this optimizer are taken out of it.",
                    "norms or biases decay")  # fmt: skip


class ScheduledByBatch(Law):
    """A schedule that counts batches is stepped once an epoch."""

    name = "ScheduledByBatch"
    subject = "torch.optim.lr_scheduler.OneCycleLR.step"
    says = "A one-cycle or cyclic schedule is stepped after every batch"
    expected = "one step of the schedule for each of the optimizer"
    because = Reason(
        "schedule-stepped-by-epoch",
        "`OneCycleLR` and `CyclicLR` change the learning rate after every batch. Stepped once an epoch they stay at "
        "the beginning of their first cycle.",
        f"{_SCHEDULE}OneCycleLR.html",
        'Call `scheduler.step()` after each `optimizer.step()`; in Lightning return `"interval": "step"`.',
        "`total_steps` that counts epochs.",
    )
    right = "for batch in loader:\n    ...\n    optimizer.step()\n    scheduler.step()"
    wrong = "for epoch in range(epochs):\n    for batch in loader: ...\n    scheduler.step()"
    place = Place.SCHEDULING
    deviation = Deviation.FEWER

    def places(self, run: Run) -> Examples:
        return each_process(run, _by_batch)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(
            f"`{process.api[row]}` is called {seen(examples, broken[0])}.", "the schedule is stepped too rarely"
        )


def _rates(process: Process, position: int) -> Examples:
    """One example for each group of each optimizer that makes two steps or more."""
    found: dict[tuple[int, int], list[float]] = {}
    first: dict[int, int] = {}
    for step in process.steps[:512]:
        first.setdefault(step.optimizer, step.row)
        for group, rate in learning_rates(process, step.optimizer, step.begin).items():
            found.setdefault((step.optimizer, group), []).append(rate)
    known = {key: rates for key, rates in found.items() if len(rates) >= _LEAST}
    if not known:
        return EMPTY
    moved = {number for (number, _), rates in known.items() if max(rates) > 0}
    holds = [number in moved and min(rates) >= 0 for (number, _), rates in known.items()]
    texts = ["0" if min(rates) >= 0 else "below 0" for rates in known.values()]
    return table(process, position, holds, [first[number] for number, _ in known], None, None, labels_of(texts))


def _hyper(process: Process) -> Iterator[tuple[int, Mapping[int, Mapping[str, Any]], Ints, Ints]]:
    """Each optimizer that steps: settings of its groups, the parameters in them, and the group of each."""
    variables = Variables.of(process)
    seqs = {step.optimizer: step.begin for step in reversed(process.steps)}
    for number, begin in seqs.items():
        members = variables.membership(number, begin)
        yield number, members.hyper, members.variables, members.groups


def _groups(process: Process, position: int) -> Examples:
    rows, holds = [], []
    for number, hyper, members, _ in _hyper(process):
        if hyper:
            rows.append(construction_row(process, number))
            holds.append(bool(len(members)))
    return table(process, position, holds, rows) if rows else EMPTY


def _decayed(process: Process, position: int) -> Examples:
    """One example for each vector of a layer that an optimizer holds whose groups without decay hold no matrix of a
    layer, and norms, biases or embeddings, or nothing at all: somebody goes by the kind of parameter, not by layers.
    """
    variables = Variables.of(process)
    parts = []
    for number, hyper, members, groups in _hyper(process):
        decays = {index: values.get("weight_decay") for index, values in hyper.items()}
        known = {index: value for index, value in decays.items() if isinstance(value, (int, float))}
        if len({value > 0 for value in known.values()}) < 2:
            continue
        symbols = [variables.symbols[item] for item in members.tolist()]
        sizes = np.array([len(symbol.get("shape") or ()) for symbol in symbols], dtype=np.int64)
        without = np.array([not known.get(group, 1) for group in groups.tolist()], dtype=bool)
        usual = np.array([str(symbol.get("name", "")).endswith(_OF_LAYERS) for symbol in symbols], dtype=bool)
        of_layers = ((sizes > 1) & usual)[without].any()
        by_kind = not without.any() or (usual | (sizes > 1))[without].any()
        if of_layers or not by_kind:
            continue
        mine = np.flatnonzero((sizes == 1) & usual)
        row = construction_row(process, number)
        parts.append(table(process, position, without[mine], np.full(len(mine), row), members[mine]))
    return Examples.concatenate(parts)


def _by_batch(process: Process, position: int) -> Examples:
    """One example for each such scheduler of an optimizer that makes four steps or more."""
    rows = process.rows_of_type("scheduler")
    calls: dict[tuple[str, int], list[int]] = {}
    for row in rows.tolist():
        if process.api[row].rpartition(".")[0].endswith(_PER_BATCH):
            calls.setdefault((process.api[row], int(process.events["opt"][row])), []).append(row)
    kept, holds, texts = [], [], []
    for (_, number), mine in calls.items():
        times = [step.begin for step in process.steps if step.optimizer == number] or [
            step.begin for step in process.steps
        ]
        if len(times) >= _LEAST:
            kept.append(mine[0])
            holds.append(2 * len(mine) >= len(times))
            texts.append(f"{len(mine)} times in {len(times)} steps of its optimizer")
    return table(process, position, holds, kept, None, None, labels_of(texts)) if kept else EMPTY
