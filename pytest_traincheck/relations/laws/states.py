"""The state of optimizers: momentum, moments and history go from step to step.

An optimizer that is made again and again in the loop, or whose state is cleared, begins again with each step.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples
from pytest_traincheck.relations.carried import Carried, StateIsKept
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, in_step, table, transferable
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Deviation, Place
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.variables import Variables

_OPTIM = "https://docs.pytorch.org/docs/stable/optim.html#how-to-use-an-optimizer"


class StateKept(Law):
    """An optimizer loses its state between steps."""

    name = "StateKept"
    subject = "torch.optim.Optimizer"
    says = "An optimizer keeps its state (momentum, moments) from step to step"
    expected = "state is carried on"
    because = Reason(
        "optimizer-state-lost",
        "Momentum, moments and step counts that begin again make of Adam or L-BFGS little more than a signed gradient.",
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
        return _not_given(run, transferable(Examples.concatenate(parts)))

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        name = process.names.optimizers[int(process.events["opt"][row])]
        return Told(f"`{name}` finds no state of its step before, first {in_step(run, examples, broken)}: "
                    "it was made again, or cleared.", "state is lost between steps")  # fmt: skip


def _not_given(run: Run, examples: Examples) -> Examples:
    """The same places, of which those hold before which the program has loaded a state: it may be one from before the
    first step, as at the end of a search for a learning rate.
    """
    holds = examples.holds.copy()
    for number, process in enumerate(run.processes):
        loads = {f"{name}.load_state_dict" for name in process.optimizer_class}
        seq = process.events["seq"].astype(np.int64)
        given = [int(seq[row]) for row in np.flatnonzero(process.is_call).tolist() if process.api[row] in loads]
        ends = np.array([0, *(step.end for step in process.steps)], dtype=np.int64)
        mine = np.flatnonzero(examples.process == number)
        if given and len(mine):
            begin = seq[examples.row[mine]]
            before = ends[np.searchsorted(ends, begin) - 1]
            times = np.array(given, dtype=np.int64)
            holds[mine] |= np.searchsorted(times, begin) > np.searchsorted(times, before)
    return replace(examples, holds=holds)


class OptimizerOnce(Law):
    """A new optimizer is made for each step or two."""

    name = "OptimizerOnce"
    subject = "torch.optim.Optimizer"
    says = "An optimizer makes more than one step before another one takes over its parameters"
    expected = "one optimizer for the whole training"
    because = Reason(
        "optimizer-made-each-step",
        "An optimizer that is made for each step forgets its momentum, moments and history in between.",
        _OPTIM,
        "Make the optimizer once, before the loop.",
        "Inner loops that begin again, as in meta-learning.",
    )
    right = "optimizer = LBFGS(model.parameters())\nfor batch in loader: ..."
    wrong = "for batch in loader:\n    optimizer = LBFGS(model.parameters())"
    place = Place.RESUMED
    deviation = Deviation.TOO_OFTEN

    def places(self, run: Run) -> Examples:
        return each_process(run, _made_again)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told(f"A new optimizer takes over the parameters of another one after a single step, first "
                    f"{in_step(run, examples, broken)}.", "an optimizer for each step")  # fmt: skip


def _made_again(process: Process, position: int) -> Examples:
    """One example for each optimizer that makes a step while none that holds the same parameters has made more."""
    variables = Variables.of(process)
    held: dict[int, frozenset[int]] = {}
    counts: dict[int, int] = {}
    for step in process.steps:
        if step.optimizer not in held:
            holds = variables.membership(step.optimizer, step.begin).variables
            held[step.optimizer] = frozenset(variables.first_name[holds].tolist())
        counts[step.optimizer] = counts.get(step.optimizer, 0) + 1
    families: dict[frozenset[int], list[int]] = {}
    for number, members in held.items():
        families.setdefault(members, []).append(number)
    first = {step.optimizer: step.row for step in reversed(process.steps)}
    rows, kept = [], []
    for numbers in families.values():
        if sum(counts[number] for number in numbers) > 1:
            rows.append(first[numbers[-1]])
            kept.append(len(numbers) < 2 or any(counts[number] > 1 for number in numbers))
    return table(process, position, kept, rows) if rows else EMPTY
