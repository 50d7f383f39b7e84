"""Between: whether the trained parameters of a model are, when a step begins, what the step before has left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, all_of, listed, variable_names
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.meaning import Deviation, Meaning, Place, Words
from pytest_traincheck.relations.resumed_beside import restored_beside
from pytest_traincheck.relations.steps_between import HOLDS, NOT_RESTORED, UNKNOWN, WRITTEN, judged, pairs_of
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.variables import Variables

SUBJECT = "torch.nn.Parameter.data"
_SEEN = ("as the step before has left it", "written to", "not restored")
_WORDS = Words(
    names=("load_state_dict", "copy_", "mul_", "lerp_", "clamp_", "fill_", "add_"),
    parts=("restore", "resume", "swap", "average", "ema"),
    words=("checkpoint", "data", "strict"),
    finds_variables=True,
)


@dataclass(frozen=True)
class LeftAlone(Claim):
    """Nothing but steps of optimizers writes into the trained parameters of a model, by its name."""

    root: str


class Between:
    """When an optimizer takes a step, each parameter that it holds has the value that the last step has left which an
    optimizer took with it.

    What is written and taken back in between, as weights that are exchanged for an evaluation, is no write. Loading
    the state of all trained parameters of a model is none either, nor is going on with new objects that have what the
    old ones had; where only a part is restored, the rest is named.
    """

    name = "Between"
    claims: ClassVar[tuple[type[Claim], ...]] = (LeftAlone,)
    looks: ClassVar[Looks] = NOTHING

    def layer(self, claim: LeftAlone) -> int:
        return 1

    def meaning(self, rule: Invariant[LeftAlone]) -> Meaning:
        return Meaning(Place.KEPT, between_steps=True, words=_WORDS)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            roots = np.unique(pairs_of(process).root).tolist()
            for root in sorted({process.names.roots[number] for number in roots} - {""}):
                yield Hypothesis(self.name, SUBJECT, LeftAlone(root), scope=Scope.PINNED)

    def examples(self, claim: LeftAlone, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: LeftAlone, subject: str, when: str) -> str:
        return f"Between two optimizer steps nothing is written into the trained parameters of `{claim.root}`{when}."

    def finding(self, invariant: Invariant[LeftAlone], run: Run, examples: Examples, broken: Ints) -> Finding:
        root, first = invariant.claim.root, int(broken[0])
        process = run.processes[int(examples.process[first])]
        step = process.step_number(int(examples.row[first]))
        seen = examples.observed[first] if examples.observed is not None else _SEEN[WRITTEN]
        names = variable_names(run, examples, _at(run, examples, step, broken))
        if seen == _SEEN[NOT_RESTORED]:
            all_lost = not examples.holds[_at(run, examples, step, np.arange(len(examples)))].any()
            lost = _at(run, examples, step, broken)
            what = _sorts(process, root, examples.variable[lost[examples.process[lost] == examples.process[first]]])
            return Finding(
                f"In the golden run {what} were carried from each step to the next; in the candidate training "
                f"goes on at step {step} without what {listed(names)} had: a resume restored "
                f"{'none of them' if all_lost else 'only the others'}.",
                "each step begins with what the step before has left",
                f"not restored before step {step}: {listed(names)}",
                value=all_of(names),
                deviation=Deviation.LACKING,
            )
        return Finding(
            f"In the golden run nothing but optimizer steps changed the trained parameters of `{root}`; in the "
            f"candidate something else is written into {listed(names)} before step {step}.",
            "changed by optimizer steps alone",
            f"written to before step {step}: {listed(names)}",
            value=all_of(names),
            deviation=Deviation.EXTRA,
        )


def _sorts(process: Process, root: str, lost: Ints) -> str:
    """What these variables are: trained parameters of a model, averages, weights that stay as they are, or buffers."""
    variables = Variables.of(process)
    buffers = np.isin(lost, variables.ids("buffer", tied=True))
    trained = variables.held[variables.first_name[lost]] & ~buffers
    others, moved = ~trained & ~buffers, _moved(process, lost)
    there = {
        "trained parameters": trained.any(),
        "averages or target networks": (others & moved).any(),
        "frozen weights": (others & ~moved).any(),
        "buffers": buffers.any(),
    }
    *first, last = [sort for sort, found in there.items() if found]
    sorts = f"{', '.join(first)} and {last}" if first else last
    roots = {process.names.roots[variables.symbols[number].get("root", 0)] for number in lost.tolist()}
    return f"the {sorts} of `{root}`" if roots == {root} else sorts


def _moved(process: Process, lost: Ints) -> Bools:
    """Of each variable whether what had its name in the processes before has ever changed."""
    variables, events, names = Variables.of(process), process.events, process.names.variables
    there = np.setdiff1d(variables.ids("parameter", tied=True), lost)
    rows = variables.rows[np.isin(events["subject"][variables.rows], there)]
    contents: dict[str, set[int]] = {names[number]: set() for number in lost.tolist()}
    for number, digest in zip(events["subject"][rows].tolist(), events["digest"][rows].tolist(), strict=True):
        if names[number] in contents:
            contents[names[number]].add(digest)
    return np.array([len(contents[names[number]]) > 1 for number in lost.tolist()], dtype=bool)


def _at(run: Run, examples: Examples, step: int, places: Ints) -> Ints:
    """Those of the examples that stand for what came before one step."""
    there = [
        run.processes[int(examples.process[place])].step_number(int(examples.row[place])) == step
        for place in places.tolist()
    ]
    found: Ints = places[np.array(there, dtype=bool)]
    return found


def _examples(process: Process, position: int, claim: LeftAlone) -> Examples:
    """One example for each parameter between each two steps, as far as it is known what it was."""
    beside = _beside(process, position, claim)
    pairs = pairs_of(process)
    mine = np.flatnonzero(Labels.of(pairs.root, process.names.roots).isin([claim.root]))
    found = judged(process)[mine]
    mine, found = mine[found != UNKNOWN], found[found != UNKNOWN]
    if not len(mine):
        return beside
    trained = Examples(
        np.asarray(found == HOLDS),
        np.full(len(mine), position),
        pairs.row[mine],
        pairs.variable[mine],
        {"rank": rank_label(process, len(mine))},
        Labels.of(found, _SEEN),
    )
    return Examples.concatenate([trained, beside])


def _beside(process: Process, position: int, claim: LeftAlone) -> Examples:
    """One example for each buffer and each average of the model that training changes, where another process goes on
    with what the one before it has left.
    """
    rows, variables, restored = restored_beside(process, claim.root)
    if not len(rows):
        return EMPTY
    return Examples(
        restored,
        np.full(len(rows), position),
        rows,
        variables,
        {"rank": rank_label(process, len(rows))},
        Labels.of(np.where(restored, HOLDS, NOT_RESTORED), _SEEN),
    )
