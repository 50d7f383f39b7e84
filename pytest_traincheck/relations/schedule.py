"""Schedule: the learning rate follows the same values from step to step in every run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pytest_traincheck.golden.model import Invariant, Kind, Scope
from pytest_traincheck.relations.base import Examples, Finding, Hypothesis
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.hyperparameter import class_of, learning_rates, text_of
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels

LIMIT = 32
"""Longest schedule that is written into a golden, in steps."""


class Schedule:
    """The learning rate takes the same values, step by step.

    One that follows the loss differs between seeds and is no rule.
    """

    name = "Schedule"

    def layer(self, claim: Mapping[str, Any]) -> int:
        return 3

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            for optimizer in sorted({step.optimizer for step in process.steps}):
                label = process.names.optimizers[optimizer]
                # A gradient scaler skips steps as the data has it, while the schedule goes on.
                if len(process.rows_of_type("scaler")) or _follows_a_metric(process, optimizer):
                    continue
                for group, rates in _schedules(process, optimizer).items():
                    claim = {"optimizer": label, "group": group, "values": rates}
                    subject = f"{class_of(process, optimizer)}.lr"
                    yield Hypothesis(self.name, subject, claim, Kind.CONFIG, Scope.PINNED)

    def examples(self, claim: Mapping[str, Any], run: Run) -> Examples:
        parts = []
        for position, process in enumerate(run.processes):
            for optimizer in sorted({step.optimizer for step in process.steps}):
                if process.names.optimizers[optimizer] == claim["optimizer"]:
                    parts.append(_examples(process, position, optimizer, claim))
        return Examples.concatenate(parts)

    def sentence(self, claim: Mapping[str, Any], subject: str, when: str) -> str:
        if len(set(claim["values"])) == 1:
            rate = claim["values"][0]
            return f"The learning rate of `{claim['optimizer']}` (group {claim['group']}) stays {rate:.4g}{when}."
        rates = ", ".join(f"{rate:.4g}" for rate in claim["values"][:8])
        more = ", ..." if len(claim["values"]) > 8 else ""
        return f"The learning rate of `{claim['optimizer']}` (group {claim['group']}) goes {rates}{more}{when}."

    def finding(self, invariant: Invariant, run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        first = int(broken[0])
        seen = examples.observed[first] if examples.observed is not None else "?"
        number = int(np.searchsorted(np.flatnonzero(examples.process == examples.process[first]), first))
        was = f"{claim['values'][number]:.6g}" if number < len(claim["values"]) else "?"
        constant = len(set(claim["values"])) == 1
        what = "The learning rate" if constant else "The learning-rate schedule"
        verbs = ("was", "is") if constant else ("gave", "gives")
        return Finding(
            f"{what} of `{claim['optimizer']}` {verbs[0]} {was} at its step {number} in golden, {verbs[1]} {seen} in "
            "the candidate.",
            f"learning rate {was}",
            f"learning rate {seen}",
        )


def _follows_a_metric(process: Process, optimizer: int) -> bool:
    """Whether a scheduler of the optimizer is stepped with a metric, as `ReduceLROnPlateau` is: then the rate is up
    to the loss.
    """
    rows = process.rows_of_type("scheduler")
    rows = rows[process.events["opt"][rows] == optimizer]
    arguments = process.raw.symbols["args"]
    return any(
        (arguments[number].get("values") or {}).get("metrics") is not None
        for number in np.unique(process.events["args"][rows]).tolist()
    )


def _schedules(process: Process, optimizer: int) -> Mapping[int, list[float]]:
    """Learning rate of each group at each step of the optimizer."""

    def compute() -> Mapping[int, list[float]]:
        schedules: dict[int, list[float]] = {}
        steps = [step for step in process.steps if step.optimizer == optimizer][:LIMIT]
        for step in steps:
            for group, rate in learning_rates(process, optimizer, step.begin).items():
                schedules.setdefault(group, []).append(rate)
        return schedules

    return process.memo(("schedule", optimizer), compute)


def _examples(process: Process, position: int, optimizer: int, claim: Mapping[str, Any]) -> Examples:
    rates = _schedules(process, optimizer).get(int(claim["group"]), [])
    wanted = claim["values"]
    size = min(len(rates), len(wanted))
    steps = [step.row for step in process.steps if step.optimizer == optimizer][:size]
    holds = np.array([math.isclose(rates[i], wanted[i], rel_tol=1e-6, abs_tol=1e-12) for i in range(size)], dtype=bool)
    return Examples(
        holds,
        np.full(size, position),
        np.array(steps, dtype=np.int64),
        np.zeros(size, dtype=np.int64),
        {"rank": rank_label(process, size)},
        Labels.of(np.arange(size), [text_of(rate) for rate in rates[:size]]) if size else None,
    )
