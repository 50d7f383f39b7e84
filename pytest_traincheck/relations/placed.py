"""Placed: which part of each parameter a rank holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, listed, variable_names
from pytest_traincheck.relations.claims import Items
from pytest_traincheck.relations.meaning import Meaning, Place, Words
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels
from pytest_traincheck.trace.variables import Variables

SUBJECT = "torch.distributed.tensor.DTensor"
WHOLE = ""
"""Every rank has all of it: a plain tensor, or one that is replicated."""


@dataclass(frozen=True)
class PlacedAs(Claim):
    """Parameters of a model lie so on the dimensions of a mesh of ranks, as torch writes placements; every rank has all
    of them where `placement` is empty.
    """

    parameters: Annotated[tuple[str, ...], Items(1)]
    placement: str


class Placed:
    """Of a model of which ranks hold parts: each parameter is spread over ranks as in the golden run, or held whole.

    A layer that a plan does not name any more computes the same, with all of its memory and work on every rank, and its
    gradient is that of a replica. No number shows that, since each rank's numbers are those of its own part.
    """

    name = "Placed"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (PlacedAs,)

    def layer(self, claim: PlacedAs) -> int:
        return 1

    def meaning(self, rule: Invariant[PlacedAs]) -> Meaning:
        words = Words(names=("parallelize_module", "fully_shard", "distribute_tensor"), finds_variables=True)
        return Meaning(Place.INITIAL, words=words)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            named: dict[tuple[int, str], list[str]] = {}
            for number, placement in _placements(process).items():
                root = int(Variables.of(process).root[number])
                named.setdefault((root, placement), []).append(process.names.variables[number])
            for (_, placement), names in named.items():
                claim = PlacedAs(tuple(sorted(names)), placement)
                yield Hypothesis(self.name, SUBJECT, claim, Kind.CONFIG, Scope.PINNED)

    def examples(self, claim: PlacedAs, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, place, claim) for place, process in enumerate(run.processes)])

    def sentence(self, claim: PlacedAs, subject: str, when: str) -> str:
        names = listed(claim.parameters)
        if claim.placement == WHOLE:
            return f"Every rank holds all of {names}{when}."
        return f"Ranks hold parts of {names}, placed as `{claim.placement}`{when}."

    def finding(self, invariant: Invariant[PlacedAs], run: Run, examples: Examples, broken: Ints) -> Finding:
        placement = invariant.claim.placement
        names = listed(variable_names(run, examples, broken))
        seen = examples.observed[int(broken[0])] if examples.observed is not None else WHOLE
        golden = (
            f"ranks held parts of {names}, placed as `{placement}`" if placement else f"every rank held all of {names}"
        )
        now = f"they are placed as `{seen}`" if seen else "every rank holds all of them"
        return Finding(
            f"In the golden run {golden}; in the candidate {now}.",
            f"placed as `{placement}`" if placement else "whole on every rank",
            f"placed as `{seen}`" if seen else "whole on every rank",
        )


def _placements(process: Process) -> dict[int, str]:
    """How each parameter of the models is placed of which ranks hold parts, by id."""
    variables, placed = Variables.of(process), _spread(process)
    models = {int(variables.root[number]) for number in placed}
    return {
        number: placed.get(number, WHOLE)
        for number in variables.ids("parameter").tolist()
        if int(variables.root[number]) in models
    }


def _spread(process: Process) -> dict[int, str]:
    """How those are placed that are `DTensor`s."""
    found = Variables.of(process).placed.items()
    return {number: WHOLE if not text.replace("Replicate()", "").strip(", ") else text for number, text in found}


def _examples(process: Process, position: int, claim: PlacedAs) -> Examples:
    variables = Variables.of(process)
    wanted = frozenset(claim.parameters)
    ids = [number for number in variables.ids("parameter").tolist() if process.names.variables[number] in wanted]
    if not ids:
        return EMPTY
    numbers = np.array(ids, dtype=np.int64)
    placed = _spread(process)
    found = [placed.get(number, WHOLE) for number in ids]
    rows = np.maximum(process.row_at(np.minimum(variables.first_seen(numbers), np.iinfo(np.uint32).max)), 0)
    return Examples(
        np.array([placement == claim.placement for placement in found], dtype=bool),
        np.full(len(ids), position),
        rows.astype(np.int64),
        numbers,
        {},
        Labels.of(np.arange(len(ids)), found),
    )
