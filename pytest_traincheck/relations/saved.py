"""Saved: what of a model is given to `torch.save`, or another function that saves, in the course of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, listed, variable_names
from pytest_traincheck.relations.claims import Items
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.loaded import SAVED, pattern, plain_names
from pytest_traincheck.relations.meaning import Deviation, Meaning, Place, Words
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.variables import Variables

SUBJECT = "torch.save"
WITHOUT = "save.without"
_ROWS = 20_000
"""What is written down of a process."""
_MOST = 64
"""Names in a claim."""
_WORDS = Words(
    names=("state_dict", "save", "save_checkpoint", "save_pretrained"),
    words=("checkpoint", "state"),
    finds_variables=True,
)


@dataclass(frozen=True)
class Saves(Claim):
    """Every parameter and buffer of a model is saved at some time, or those of these names, in which `*` stands for a
    number.
    """

    root: str
    names: Annotated[tuple[str, ...], Items(1, _MOST)] | None = None


class Saved:
    """Of a model of which something is saved everything is, or the same part, in one file or in several."""

    name = "Saved"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (Saves,)

    def layer(self, claim: Saves) -> int:
        return 3  # what is not loaded because of it says more

    def meaning(self, rule: Invariant[Saves]) -> Meaning:
        return Meaning(Place.RESUMED, words=_WORDS)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            calls, variable, saved = _saved(process)
            roots = Labels.of(Variables.of(process).root[variable], process.names.roots)
            for root, mine in roots.groups(np.arange(len(variable))).items():
                names = _names(process, variable[mine], saved[mine])
                if root and (names is None or 0 < len(names) <= _MOST):
                    subject = _saver(process, calls[mine], saved[mine])
                    yield Hypothesis(self.name, subject, Saves(root, names), scope=Scope.PINNED)
                    moving = _moving(process, variable[mine], saved[mine], calls[mine])
                    if names is None and 0 < len(moving) <= _MOST:
                        # All is saved of what a state has; whether it has these is for the program to say.
                        yield Hypothesis(self.name, subject, Saves(root, moving), scope=Scope.PINNED)

    def examples(self, claim: Saves, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: Saves, subject: str, when: str) -> str:
        return f"`{subject}` saves {_all(claim)} in a run{when}."

    def finding(self, invariant: Invariant[Saves], run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        names = listed(variable_names(run, examples, broken))
        first = int(broken[0])
        saver = run.processes[int(examples.process[first])].api[int(examples.row[first])]
        instead = "it is" if saver == invariant.subject else f"`{saver}` is"
        return Finding(
            f"In the golden run `{invariant.subject}` was given {_all(claim)}; in the candidate {instead} given others "
            f"of that model, and never {names}.",
            f"saves {_all(claim)}",
            f"left out: {names}",
            deviation=Deviation.LACKING,
        )


def _all(claim: Saves) -> str:
    if claim.names is None:
        return f"all parameters and buffers of `{claim.root}`"
    return f"{listed(claim.names)} of `{claim.root}`"


def _names(process: Process, variable: Ints, saved: Bools) -> tuple[str, ...] | None:
    """The patterns of the names of what is saved; `None`: all of it."""
    if bool(saved.all()):
        return None
    found: dict[str, bool] = {}
    for name, is_saved in zip(plain_names(process, variable), saved.tolist(), strict=True):
        found[pattern(name)] = found.get(pattern(name), True) and is_saved
    return tuple(sorted(name for name, is_saved in found.items() if is_saved))


def _moving(process: Process, variable: Ints, saved: Bools, calls: Ints) -> tuple[str, ...]:
    """The patterns of the names of buffers that are saved and have changed until then; none of torch's own layers,
    which say themselves what persists.
    """
    times = process.events["seq"][np.maximum(calls, 0)].astype(np.int64)
    variables = Variables.of(process)
    moved = variables.changed(variable, np.zeros(len(variable), dtype=np.int64), times)
    mine = variable[saved & moved & variables.kind.isin(["buffer"])[variable]]
    classes = {
        (symbol.get("root", 0), str(symbol.get("path", ""))): str(symbol.get("class", ""))
        for symbol in process.raw.symbols["mod"]
    }
    own = [
        not classes.get((int(variables.root[number]), name.rpartition(".")[0]), "").startswith("torch.")
        for number, name in zip(mine.tolist(), plain_names(process, mine), strict=True)
    ]
    return tuple(sorted({pattern(name) for name in plain_names(process, mine[np.array(own, dtype=bool)])}))


def _saver(process: Process, calls: Ints, saved: Bools) -> str:
    """The function that saves most of it."""
    known = calls[saved & (calls >= 0)]
    names, counts = np.unique(process.api.codes[known], return_counts=True)
    return process.api.values[int(names[np.argmax(counts)])] if len(names) else SUBJECT


def _saved(process: Process) -> tuple[Ints, Ints, Bools]:
    """The call that first saved it or something else of its model, the variable, and whether it is saved at all."""
    with_it, without = process.measures(SAVED), process.measures(WITHOUT)
    rows = np.concatenate([with_it, without])
    variable = process.events["args"][rows].astype(np.int64)
    saved = np.concatenate([np.ones(len(with_it), dtype=bool), np.zeros(len(without), dtype=bool)])
    calls = process.parent_row[rows]
    # What was saved once is saved.
    _, first = np.unique(variable, return_index=True)
    return calls[first], variable[first], saved[first]


def _left_out(process: Process, calls: Ints, variable: Ints) -> tuple[Ints, Ints]:
    """Buffers that have changed when something of their model is first saved and are in no state: call and buffer.

    Without them a model that is loaded goes on from other values. What never changes is made again as it was.
    """
    variables = Variables.of(process)
    if len(variable) >= _ROWS:
        return calls[:0], variable[:0]  # more may be saved than was written down
    times = process.events["seq"][np.maximum(calls, 0)].astype(np.int64)
    first: dict[int, tuple[int, int]] = {}
    for root, time, call in zip(variables.root[variable].tolist(), times.tolist(), calls.tolist(), strict=True):
        if call >= 0:
            first[root] = min(first.get(root, (time, call)), (time, call))
    others = np.setdiff1d(variables.ids("buffer"), variables.first_name[variable])
    others = others[np.isin(variables.root[others], [*first])]
    known = [first[root] for root in variables.root[others].tolist()]
    until = np.array([time for time, _ in known], dtype=np.int64)
    moved = variables.changed(others, np.zeros(len(others), dtype=np.int64), until)
    return np.array([call for _, call in known], dtype=np.int64)[moved], others[moved]


def _examples(process: Process, position: int, claim: Saves) -> Examples:
    calls, variable, saved = _saved(process)
    if claim.names is not None:
        more, others = _left_out(process, calls, variable)
        calls, variable = np.concatenate([calls, more]), np.concatenate([variable, others])
        saved = np.concatenate([saved, np.zeros(len(others), dtype=bool)])
    mine = Labels.of(Variables.of(process).root[variable], process.names.roots).isin([claim.root]) & (calls >= 0)
    if claim.names is not None:
        names = claim.names
        mine &= np.array([pattern(name) in names for name in plain_names(process, variable)], dtype=bool)
    if not mine.any():
        return EMPTY
    size = int(mine.sum())
    return Examples(
        saved[mine], np.full(size, position), calls[mine], variable[mine], {"rank": rank_label(process, size)}
    )
