"""Clipped: whether an optimizer uses no more gradient than clipping has measured and let through."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from pytest_traincheck.looks import GRADIENT_NORMS, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.meaning import Deviation, Meaning, Place
from pytest_traincheck.relations.settings import text_of
from pytest_traincheck.relations.vocabulary import only_measures
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.variables import Variables

Floats = npt.NDArray[np.float64]

SAME, MORE = (1e-5, 5e-3), (1e-3, 1e-1)
"""Relative excess up to which two norms are of the same gradients, added up in another order, and from which something
was added; for float32, and for float16 and bfloat16, whose norms have two or three digits. What lies between says
nothing: a part that golden leaves out on purpose, and whose gradients are small, is not taken for clipped.
"""
HALVES = ("float16", "bfloat16")


@dataclass(frozen=True)
class GradientsClipped(Claim):
    """All gradients that an optimizer, by its label, uses were clipped by a function."""

    optimizer: str
    by: str


class Clipped:
    """The gradients that an optimizer uses have together the norm that clipping returned, or `max_norm` where that is
    less. One whose norm is larger uses something that was not clipped: a parameter that clipping was not given, or a
    gradient that changed afterwards.

    A norm that is smaller says nothing, since clipping may be given what several optimizers hold. So a step counts only
    where both norms are the same, or the larger one is used: an optimizer whose gradients are not clipped never has two
    equal norms by chance, and there is no rule about it. Nor does a step count where clipping found no gradients, which
    its own norm says.
    """

    name = "Clipped"
    looks: ClassVar[Looks] = frozenset({GRADIENT_NORMS})
    claims: ClassVar[tuple[type[Claim], ...]] = (GradientsClipped,)

    def layer(self, claim: GradientsClipped) -> int:
        return 2

    def meaning(self, rule: Invariant[GradientsClipped]) -> Meaning:
        return Meaning(Place.PREPARATION)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            for line in _clippings(process):
                name, by = process.names.optimizers[int(line["optimizer"])], process.api[int(line["clip"])]
                yield Hypothesis(self.name, by, GradientsClipped(name, by), scope=Scope.PINNED)

    def examples(self, claim: GradientsClipped, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: GradientsClipped, subject: str, when: str) -> str:
        return f"`{claim.optimizer}` uses no gradients but those that `{claim.by}` has clipped{when}."

    def finding(self, invariant: Invariant[GradientsClipped], run: Run, examples: Examples, broken: Ints) -> Finding:
        seen = examples.observed[int(broken[0])] if examples.observed is not None else "?"
        optimizer, by = invariant.claim.optimizer, invariant.claim.by
        return Finding(
            f"In the golden run `{by}` clipped all gradients that `{optimizer}` uses; in the candidate the optimizer "
            f"uses {seen}: a parameter is left out of clipping, or a gradient changes after it.",
            "gradients with the norm that was returned, or with `max_norm`",
            seen,
            deviation=Deviation.FEWER,
        )


CLIPPINGS = np.dtype([("clip", "i8"), ("optimizer", "i8"), ("used", "f8"), ("allowed", "f8"), ("holds", "?")])
"""One line for each step that comes after clipping and shows something: the row of the (last) call, the optimizer, the
norm of the gradients that it uses, the norm that clipping let through, and whether these are the same.
"""


def _clippings(process: Process) -> npt.NDArray[np.void]:
    return process.memo("clippings", lambda: _found(process))


def _found(process: Process) -> npt.NDArray[np.void]:
    calls = process.rows_of_type("clip")
    # What a closure clips lies within the step: what the step uses was not there when it began.
    calls = calls[~only_measures(process)[calls] & ~process.inside("optimizer", "clip")[calls]]
    begins = np.array([step.begin for step in process.steps], dtype=np.int64)
    # The step that comes next is the one that uses what was clipped.
    place = np.searchsorted(begins, process.events["end"][calls].astype(np.int64))
    calls, place = calls[place < len(begins)], place[place < len(begins)]
    if not len(calls):
        return np.empty(0, dtype=CLIPPINGS)
    numbers, last = np.unique(place[::-1], return_index=True)
    used, halves = (column[numbers] for column in _used(process))
    # Several calls clip parts of a model; norms of parts add up as sides at right angles do.
    allowed = np.sqrt(np.bincount(place, _let_through(process, calls) ** 2, minlength=len(begins)))[numbers]
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = used / allowed - 1
    same, more = (np.where(halves, of_halves, usual) for usual, of_halves in (SAME, MORE))
    table = np.empty(len(numbers), dtype=CLIPPINGS)
    table["clip"], table["used"], table["allowed"], table["holds"] = calls[::-1][last], used, allowed, excess <= same
    table["optimizer"] = [process.steps[number].optimizer for number in numbers.tolist()]
    shows: Bools = (np.abs(excess) <= more) & (excess <= same) | (excess > more)
    return table[shows & np.isfinite(excess)]


def _let_through(process: Process, calls: Ints) -> Floats:
    """The norm after each call; NaN where it is not an L2 norm that is clipped, or where that is not known."""
    most = np.array([_most(process, row) for row in calls.tolist()], dtype=np.float64)
    returned = process.events["value"][calls]
    # A result on a GPU is not read. What is at the bound all the same was clipped to it.
    return np.where(np.isnan(returned), most, np.minimum(most, returned))


def _most(process: Process, row: int) -> float:
    values = process.raw.symbols["args"][int(process.events["args"][row])].get("values") or {}
    most, kind = values.get("max_norm"), values.get("norm_type")
    if isinstance(most, (int, float)) and not isinstance(most, bool) and kind == 2:
        return float(most)
    return float("nan")


def _used(process: Process) -> tuple[Floats, Bools]:
    """For each step the norm of all gradients that its optimizer holds, NaN where one is not finite; and whether there
    are any in half the precision.
    """
    variables, events = Variables.of(process), process.events
    table = variables.step_table
    gradient = variables.companion("gradient")[variables.first_name[table.variable]]
    rows = np.where(gradient > 0, variables.last(gradient, table.column("begin")), -1)
    states = events["new"][np.maximum(rows, 0)]
    there = (rows >= 0) & ~np.isin(states, [fmt.ABSENT, fmt.ZERO])
    norms = np.where(there, np.where(states == fmt.NONFINITE, np.nan, events["value"][np.maximum(rows, 0)]), 0.0)
    halves = np.array([symbol.get("dtype", "") in HALVES for symbol in variables.symbols], dtype=bool)[gradient]
    used = np.sqrt(np.bincount(table.step, norms**2, minlength=len(table.steps)))
    return used, np.bincount(table.step, halves & there, minlength=len(table.steps)) > 0


def _examples(process: Process, position: int, claim: GradientsClipped) -> Examples:
    table = _clippings(process)
    mine = Labels.of(table["optimizer"], process.names.optimizers).isin([claim.optimizer])
    table = table[mine & process.api.take(table["clip"]).isin([claim.by])]
    if not len(table):
        return EMPTY
    return Examples(
        table["holds"],
        np.full(len(table), position),
        table["clip"],
        np.zeros(len(table), dtype=np.int64),
        {"rank": rank_label(process, len(table))},
        Labels.of(
            np.arange(len(table)),
            [
                f"gradients with a norm of {text_of(float(line['used']))}, where clipping let through "
                f"{text_of(float(line['allowed']))}"
                for line in table
            ],
        ),
    )
