"""Fixed: parameters that begin with the same values whatever the seed, since they come from a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_traincheck.golden.numbers import Numbers
from pytest_traincheck.looks import SKETCHES, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, MeasuredClaim, listed, variable_names
from pytest_traincheck.relations.beginnings import ENOUGH, VARIED, Beginnings, First, parameter_rows
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.meaning import Meaning, Place, Words
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints
from pytest_traincheck.trace.variables import Variables

SUBJECT = "torch.nn.Parameter"
INITIALISED, OVERWRITTEN, RANDOM = "parameter.initialised", "parameter.overwritten", ("rng.torch", "rng.cuda")
_PRECISION = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_ROUNDING = 1e-6
"""How far two numbers of one precision are apart, relative to the root mean square, that were computed in two ways."""
_DIGITS = 8
"""What the rounding to a coarser precision may do, in units of that."""
_MEAN, _EXACT = ": mean", ": precision"
"""Ends of names of numbers; the root mean square has the name of the parameter alone."""
_FROM = ("load", "from_pretrained", "load_state_dict", "from_numpy", "load_file", "restore")


@dataclass(frozen=True)
class BeginsAlike(MeasuredClaim):
    """Parameters of a model begin with the same values in every run."""

    root: str


class Fixed:
    """Parameters that are the same to the last bit at the beginning of every golden run, though these have different
    seeds, begin with these values: a pretrained model, a teacher, a table.

    Only of what is loaded, or is made of a tensor from elsewhere, and not drawn in place: what is drawn under a seed
    that is written into the program comes out otherwise when layers are made in another order.
    """

    name = "Fixed"
    looks: ClassVar[Looks] = frozenset({SKETCHES})
    claims: ClassVar[tuple[type[Claim], ...]] = (BeginsAlike,)

    def layer(self, claim: BeginsAlike) -> int:
        return 3  # a state that is not loaded, or a call that never comes, says more

    def meaning(self, rule: Invariant[BeginsAlike]) -> Meaning:
        words = Words(names=_FROM, words=("pretrained",), finds_variables=True)
        return Meaning(Place.INITIAL, at_beginning=True, words=words)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        roots = {root for process in run.processes for root, _, _ in _from_elsewhere(process)}
        for root in sorted(roots):
            yield Hypothesis(self.name, SUBJECT, BeginsAlike(root), scope=Scope.PINNED)

    def fit(self, claim: BeginsAlike, runs: Sequence[Run]) -> Numbers | None:
        """Size, mean and precision of what is the same in all runs; None where no two runs draw anything else."""
        if not _drawn_otherwise(runs):
            return None
        known: dict[str, set[int]] = {}
        for run in runs:
            found: dict[str, set[int]] = {}
            for process in run.processes:
                for root, name, item in _from_elsewhere(process):
                    if root == claim.root:
                        found.setdefault(name, set()).add(item.digest)
            known = found if run is runs[0] else {name: known[name] | found[name] for name in known if name in found}
        first = {name: numbers for process in runs[0].processes for name, numbers in _numbers(process).items()}
        same = [name for name, digests in known.items() if len(digests) == 1 and name in first]
        if not same:
            return None
        names = [f"{name}{what}" for name in same for what in ("", _MEAN, _EXACT)]
        values = np.array([number for name in same for number in first[name]])
        return Numbers(tuple(names), values, values)

    def suits(self, claim: BeginsAlike, numbers: Numbers) -> bool:
        """Each parameter has its three numbers."""
        plain = [name for name in numbers.names if f"{name}{_MEAN}" in numbers.position]
        return 3 * len(plain) == len(numbers.names) and all(f"{name}{_EXACT}" in numbers.position for name in plain)

    def examples(self, claim: BeginsAlike, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: BeginsAlike, subject: str, when: str) -> str:
        return f"Parameters of `{claim.root}` begin with the same values in every run, whatever the seed{when}."

    def finding(self, invariant: Invariant[BeginsAlike], run: Run, examples: Examples, broken: Ints) -> Finding:
        names = listed(variable_names(run, examples, broken))
        return Finding(
            f"In the golden run {names} began with the same values whatever the seed; in the candidate with others: "
            "they are drawn instead of loaded, or come from elsewhere.",
            "the same values in every run",
            f"other values: {names}",
        )


def _drawn_otherwise(runs: Sequence[Run]) -> bool:
    """Whether some runs have other seeds: every generator that a parameter may be drawn from has other states. One that
    all runs seed alike draws the same values in all of them.
    """
    states = [{_state(run, name) for run in runs} for name in RANDOM]
    return any(len(found) > 1 for found in states) and all(len(found) > 1 or found == {0} for found in states)


def _state(run: Run, name: str) -> int:
    """The state of a generator before the first step: what tells runs with different seeds apart; 0 if nobody saw."""
    for process in run.processes:
        rows = process.measures(name)
        if len(rows):
            return int(process.events["digest"][rows[0]])
    return 0


def _from_elsewhere(process: Process) -> Iterator[tuple[str, str, First]]:
    """Root, name and first look of the parameters whose values were not drawn where they are."""

    def compute() -> list[tuple[str, str, First]]:
        variables, names = Variables.of(process), process.names
        counts, written = (_said(process, name) for name in (INITIALISED, OVERWRITTEN))
        first = Beginnings.of(process).first
        drawn = {number for number in first if counts.get(number) != 0 and number not in written}
        contents = {first[number].digest for number in drawn}
        found = []
        for number, item in first.items():
            root = names.roots[int(variables.root[number])]
            # A copy of what was drawn, as a teacher may be, is drawn as well.
            if root and item.digest not in contents and item.spread > VARIED and item.elements >= ENOUGH:
                found.append((root, names.variables[number], item))
        return found

    yield from process.memo("begins from elsewhere", compute)


def _said(process: Process, measure: str) -> Mapping[int, float]:
    """A measure of variables, by their ids."""
    rows = process.measures(measure)
    return dict(zip(process.events["args"][rows].tolist(), process.events["value"][rows].tolist(), strict=True))


def _numbers(process: Process) -> Mapping[str, tuple[float, float, float]]:
    """By name, of every parameter at its first look: root mean square, mean, and precision of its dtype."""

    def compute() -> Mapping[str, tuple[float, float, float]]:
        variables, names = Variables.of(process), process.names
        found: dict[str, list[float]] = {}
        for measure in ("parameter.rms", "parameter.mean"):
            for number, value in _said(process, measure).items():
                if np.isfinite(value):
                    found.setdefault(names.variables[number], []).append(float(value))
        precision = {
            names.variables[number]: _PRECISION.get(str(variables.symbols[number].get("dtype")), 0.0)
            for number in variables.ids("parameter").tolist()
        }
        return {
            name: (values[0], values[1], precision[name])
            for name, values in found.items()
            if len(values) == 2 and precision.get(name)
        }

    return process.memo("numbers of beginnings", compute)


def _examples(process: Process, position: int, claim: BeginsAlike) -> Examples:
    wanted, numbers = claim.numbers, _numbers(process)
    names = process.names.variables
    holds, items = [], []
    for number, item in Beginnings.of(process).first.items():
        name = names[number]
        if name not in wanted.position or f"{name}{_MEAN}" not in wanted.position or name not in numbers:
            continue
        rms, mean, exact = (float(wanted.low[wanted.position[f"{name}{what}"]]) for what in ("", _MEAN, _EXACT))
        ours = numbers[name]
        allowed = rms * (_ROUNDING if ours[2] == exact else _DIGITS * max(ours[2], exact))
        holds.append(abs(ours[0] - rms) <= allowed and abs(ours[1] - mean) <= allowed)
        items.append(item)
    if not items:
        return EMPTY
    rows, variables = parameter_rows(items)
    size = len(items)
    return Examples(
        np.array(holds, dtype=bool), np.full(size, position), rows, variables, {"rank": rank_label(process, size)}
    )
