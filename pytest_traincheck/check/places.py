"""Places of a run where a rule speaks, and what is told of those where it is broken."""

from __future__ import annotations

import numpy as np

from pytest_traincheck.check.later_evaluation import out_of_reach
from pytest_traincheck.check.result import Violation
from pytest_traincheck.relations import Examples, Relation, meaning_of
from pytest_traincheck.relations.base import in_set_up, variable_names
from pytest_traincheck.relations.vocabulary import ESTIMATES
from pytest_traincheck.rules.conditions import Clause
from pytest_traincheck.rules.model import Invariant
from pytest_traincheck.trace import Run
from pytest_traincheck.trace.labels import Bools, Ints


def spoken_of(invariant: Invariant, examples: Examples, run: Run, *, set_up: bool = False) -> Bools:
    """The examples that a rule speaks of: those that its precondition admits, in what is judged of a run, and behind
    set-up unless it speaks of that, too.
    """
    found = examples.where(invariant.when) & _judged(examples, run)
    if not set_up and not _speaks_of_set_up(invariant):
        found &= ~in_set_up(examples, run)
    return found


def in_order(examples: Examples, broken: Ints) -> Ints:
    """Positions in order of time."""
    return broken[np.argsort(examples.row[broken], kind="stable")]


def _judged(examples: Examples, run: Run) -> Bools:
    """Which examples lie in what is judged, and not in what only says how the training began, in evaluation that golden
    knows nothing of, or where a model is called to estimate its running statistics, which is no evaluation.
    """
    found = np.ones(len(examples), dtype=bool)
    for number, process in enumerate(run.processes):
        mine = examples.process == number
        rows = examples.row[mine]
        if len(process.rows_of_type(ESTIMATES)):
            found[mine] = ~process.inside(ESTIMATES)[rows]
        if process.raw.stretch is not None:
            found[mine] &= process.judged(rows) & ~out_of_reach(process)[rows]
    return found


def _speaks_of_set_up(invariant: Invariant) -> bool:
    """Whether a rule was learned from forward passes in set-up, too: a model may be called once to show its shapes."""
    stages = [item.values for item in invariant.when if isinstance(item, Clause) and item.field == "stage"]
    return meaning_of(invariant).set_up or any("init" in values for values in stages)


def violation_of(relation: Relation, invariant: Invariant, run: Run, examples: Examples, broken: Ints) -> Violation:
    """What is told of a broken rule: `broken` are positions in order of time."""
    processes = [run.processes[int(number)] for number in examples.process[broken]]
    steps = np.array(
        [process.step_number(int(row)) for process, row in zip(processes, examples.row[broken], strict=True)]
    )
    # What a person is told is the first step in which it happened, and all that broke there.
    first_step = int(steps.min())
    earliest = broken[steps == first_step]
    place = int(earliest[0])
    process, row = run.processes[int(examples.process[place])], int(examples.row[place])
    finding = relation.finding(invariant, run, examples, earliest)
    return Violation(
        invariant=invariant,
        title=finding.title,
        golden=finding.golden,
        candidate=finding.candidate,
        step=first_step,
        stage=process.stage_name(row),
        ranks=finding.ranks or tuple(sorted({item.rank for item in processes})),
        seq=int(process.events["seq"][row]) if len(process.events) else 0,
        module=process.module_name(row) if len(process.events) else "",
        variables=finding.variables or variable_names(run, examples, earliest),
        source=process.source(row) if len(process.events) else "",
        count=len(broken),
        place=finding.place,
        value=finding.value,
        deviation=finding.deviation,
        common_cause=finding.common_cause,
        modules=finding.modules,
        changed=finding.changed,
    )
