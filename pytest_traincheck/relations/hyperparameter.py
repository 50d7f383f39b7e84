"""Hyperparameter: the configuration of optimizers. Configuration is behaviour."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.optimizer_label import BY_HAND
from pytest_traincheck.relations.base import (
    EMPTY,
    Examples,
    Finding,
    Hypothesis,
    listed,
    seen_values,
    variable_names,
)
from pytest_traincheck.relations.claims import SettingValue
from pytest_traincheck.relations.context import rank_label, variable_context
from pytest_traincheck.relations.covered import construction_row
from pytest_traincheck.relations.meaning import Evidence, Meaning, Place, Words
from pytest_traincheck.relations.settings import Setting, Sort, text_of
from pytest_traincheck.relations.settings_left import Course, left_with, plain
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels
from pytest_traincheck.trace.process import OptimizerStep
from pytest_traincheck.trace.variables import Variables

RATE, MAX_RATE = "lr", "max_lr"
RATES = (RATE, MAX_RATE, "min_lr")
"""Hyper-parameters that are learning rates; one decision often sets several of them."""

VALUE: Final = "value"
PER_PARAMETER: Final = "per parameter"
CLASS: Final = "class"

IMPLEMENTATION = frozenset({"foreach", "fused", "capturable", "differentiable"})
"""Which kernel does the work: no change of behaviour."""


@dataclass(frozen=True)
class ClassIs(Claim):
    """An optimizer, by its label, is of a class."""

    rule: Literal["class"] = field(default=CLASS, init=False)
    optimizer: str
    name: str
    value: str


@dataclass(frozen=True)
class SettingIs(Claim):
    """A hyper-parameter has a value for all parameters of an optimizer, or for some of them."""

    rule: Literal["value", "per parameter"]
    optimizer: str
    name: str
    value: SettingValue


class Hyperparameter:
    """A hyper-parameter of an optimizer has one value for all its groups, or depends on the kind of parameter; the
    learning rate follows one schedule.

    Always pinned: another pipeline may be configured as it likes.
    """

    name = "Hyperparameter"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (ClassIs, SettingIs)

    def layer(self, claim: ClassIs | SettingIs) -> int:
        return 1

    def meaning(self, rule: Invariant[ClassIs | SettingIs]) -> Meaning:
        name = rule.claim.name
        setting = Setting(Sort.PARAMETERS, name, text_of(rule.claim.value), is_rate=name in RATES)
        if isinstance(rule.claim, ClassIs):
            return Meaning(Place.CLASS, setting=setting)
        shown_by = Evidence.RATED if name == RATE else Evidence.NONE
        return Meaning(Place.CHOICE, words=Words(words=(name,)), setting=setting, shown_by=shown_by)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            for optimizer in sorted({step.optimizer for step in process.steps}):
                yield from self._of_optimizer(process, optimizer)

    def _of_optimizer(self, process: Process, optimizer: int) -> Iterable[Hypothesis]:
        label = process.names.optimizers[optimizer]
        name = class_of(process, optimizer)
        if name == BY_HAND:
            return
        yield Hypothesis(
            self.name,
            name,
            ClassIs(label, "class", name),
            Kind.CONFIG,
            Scope.PINNED,
        )
        table = _table(process, optimizer)
        for key, values in sorted(table.items()):
            distinct = {text_of(value): value for value in values}
            if len(distinct) > 4:
                continue
            for value in distinct.values():
                claim = SettingIs(VALUE if len(distinct) == 1 else PER_PARAMETER, label, key, value)
                yield Hypothesis(self.name, name, claim, Kind.CONFIG, Scope.PINNED)

    def examples(self, claim: ClassIs | SettingIs, run: Run) -> Examples:
        return Examples.concatenate(
            [_value_examples(*place, claim) for place in optimizers_called(run, claim.optimizer)]
        )

    def sentence(self, claim: ClassIs | SettingIs, subject: str, when: str) -> str:
        if isinstance(claim, ClassIs):
            return f"The optimizer `{claim.optimizer}` is a `{subject}`{when}."
        return f"`{subject}({claim.name})` is {text_of(claim.value)} for `{claim.optimizer}`{when}."

    def finding(self, invariant: Invariant[ClassIs | SettingIs], run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        first = int(broken[0])
        seen = examples.observed[first] if examples.observed is not None else "?"
        if isinstance(claim, ClassIs):
            return Finding(
                f"The optimizer `{claim.optimizer}` was a `{claim.value}` in the golden run and is a `{seen}` "
                "in the candidate.",
                f"{claim.value}",
                f"{seen}",
                value=seen,
            )
        whom = ""
        if claim.rule == PER_PARAMETER:
            whom = f" for {listed(variable_names(run, examples, broken), 2)}"
        # A rule for all parameters is broken by what they have now, those included that still have golden's.
        shown = broken if claim.rule == PER_PARAMETER else np.arange(len(examples))
        seen = seen_values(examples, shown)
        what = "The learning rate " if claim.name == RATE else ""
        return Finding(
            f"{what}`{invariant.subject}({claim.name})`{whom} was {text_of(claim.value)} in the golden run and is "
            f"{seen} in the candidate.",
            f"{claim.name} = {text_of(claim.value)}",
            f"{claim.name} = {seen}",
            value=seen,
        )


def optimizers_called(run: Run, label: str) -> Iterator[tuple[Process, int, int]]:
    """Every optimizer that rules call so and that took a step: its process, the position of that, and its number."""
    for position, process in enumerate(run.processes):
        for optimizer in sorted({step.optimizer for step in process.steps}):
            if process.names.optimizers[optimizer] == label:
                yield process, position, optimizer


def class_of(process: Process, optimizer: int) -> str:
    return str(process.raw.symbols["opt"][optimizer].get("class", ""))


def _is_setting(value: Any) -> bool:
    """Whether something can be told apart from another value: objects and lists of them are no configuration."""
    if isinstance(value, list):
        given = [item for item in value if item is not None]
        return bool(given) and all(isinstance(item, (bool, int, float, str)) for item in given)
    return value is None or isinstance(value, (bool, int, float, str))


def _first_step(process: Process, optimizer: int) -> int:
    return next(number for number, step in enumerate(process.steps) if step.optimizer == optimizer)


def _table(process: Process, optimizer: int) -> Mapping[str, list[Any]]:
    """Hyper-parameter name -> value for each parameter, as they were at the optimizer's first step. The learning
    rate is the one in force then.
    """

    def compute() -> Mapping[str, list[Any]]:
        variables = Variables.of(process)
        step = process.steps[_first_step(process, optimizer)]
        members = variables.membership(optimizer, step.begin)
        table: dict[str, list[Any]] = {}
        names = {key for hyper in members.hyper.values() for key in hyper}
        for name in sorted(names - {"lr", "initial_lr"} - IMPLEMENTATION):
            values = [plain(members.hyper[int(group)].get(name)) for group in members.groups]
            if all(map(_is_setting, values)):
                table[name] = values
        made = variables.constructed(optimizer)
        rates = [made.get(int(group), {}).get("lr") for group in members.groups]
        if rates and all(isinstance(rate, (int, float)) for rate in rates):
            table["lr"] = rates
        return table

    return process.memo(("hyper", optimizer), compute)


def learning_rates(process: Process, optimizer: int, seq: int) -> dict[int, float]:
    """Group index -> learning rate in force at a time."""
    variables = Variables.of(process)
    found: dict[int, float] = {}
    for number in variables.ids("lr").tolist():
        symbol = variables.symbols[number]
        if symbol.get("opt", 0) == optimizer:
            row = int(variables.last(np.array([number]), np.array([seq]))[0])
            if row >= 0:
                found[int(symbol.get("group", 0) or 0)] = float(process.events["value"][row])
    return found


def base_rates(process: Process, optimizer: int) -> Mapping[int, tuple[str, float]]:
    """Group index -> what its learning rates are relative to: the name of a hyper-parameter, and its value.

    A scheduler that goes up to a rate of its own, whatever the optimizer was made with, leaves it in the group as
    `max_lr`. Otherwise it is the `lr` that the optimizer was made with. A group without either, or with one that is no
    positive number, has none.
    """

    def compute() -> Mapping[int, tuple[str, float]]:
        variables = Variables.of(process)
        made = variables.constructed(optimizer)
        later = variables.membership(optimizer, steps_of(process, optimizer)[0].begin).hyper
        found: dict[int, tuple[str, float]] = {}
        for group, hyper in made.items():
            name = MAX_RATE if _is_rate(later.get(group, {}).get(MAX_RATE)) else RATE
            value = (later[group] if name == MAX_RATE else hyper).get(name)
            if value is not None and _is_rate(value):
                found[group] = (name, float(value))
        return found

    return process.memo(("base rates", optimizer), compute)


def _is_rate(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def steps_of(process: Process, optimizer: int) -> list[OptimizerStep]:
    """The steps of one optimizer in order."""
    return [step for step in process.steps if step.optimizer == optimizer]


def _goes_on(process: Process, optimizer: int, name: str, parameters: Ints) -> Mapping[int, bool]:
    """Whether a hyper-parameter is, for each parameter, what it was left with in a training that a process goes on
    with.
    """
    # A rate is what a group was made with; schedules change it, and are judged by themselves.
    left = left_with(process, optimizer, name, made=name == RATE)
    values, names = _table(process, optimizer)[name], process.names.variables
    known: dict[tuple[Course, str], bool] = {}
    found: dict[int, bool] = {}
    for number, value in zip(parameters.tolist(), values, strict=True):
        text = text_of(value)
        for course in left.get(names[number], ()):
            if (course, text) not in known:
                known[course, text] = course.has(value)
            found[number] = found.get(number, False) or known[course, text]
        found.setdefault(number, False)
    return found


def _value_examples(process: Process, position: int, optimizer: int, claim: ClassIs | SettingIs) -> Examples:
    table = _table(process, optimizer)
    if class_of(process, optimizer) == BY_HAND or (isinstance(claim, SettingIs) and claim.name not in table):
        return EMPTY
    step, stretch = process.steps[_first_step(process, optimizer)], process.raw.stretch
    if stretch is not None and stretch.head_end < Variables.of(process).recorded(optimizer) <= stretch.begin:
        return EMPTY  # It was made, and judged, in steps that are not there any more.
    members = Variables.of(process).membership(optimizer, step.begin)
    rows = members.variables
    values = [class_of(process, optimizer)] * len(rows) if isinstance(claim, ClassIs) else table[claim.name]
    texts = [text_of(value) for value in values]
    wanted = text_of(claim.value)
    holds = [text == wanted for text in texts]
    if isinstance(claim, SettingIs) and not all(holds):
        goes_on = _goes_on(process, optimizer, claim.name, rows)
        holds = [each or goes_on[row] for each, row in zip(holds, rows.tolist(), strict=True)]
    context = {"rank": rank_label(process, len(rows)), "first_step": Labels.constant("yes", len(rows))}
    context.update(variable_context(process, rows))
    return Examples(
        np.array(holds, dtype=bool),
        np.full(len(rows), position),
        np.full(len(rows), construction_row(process, optimizer)),
        rows if claim.rule == PER_PARAMETER else np.zeros(len(rows), dtype=np.int64),
        context,
        Labels.of(np.arange(len(texts)), texts) if texts else None,
    )
