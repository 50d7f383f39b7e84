"""Averages: how much of itself a copy of a model keeps when it follows the model: its decay."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from pytest_traincheck.looks import SKETCHES, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.claims import Natural
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.meaning import Meaning, Place, Words
from pytest_traincheck.replay import record
from pytest_traincheck.replay.computed import Computed, Tensor
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Run
from pytest_traincheck.trace.labels import Ints, Labels
from pytest_traincheck.trace.variables import Variables

_EPSILON = 2.0**-23
_NOISE = 0.01
"""Share of what a copy and its model are apart that rounding may be, where the decay is still known."""
_FIT = 0.02
"""Relative distance of an update from the best average of both that is still one."""
_SAME = 0.03
"""How far the share that is taken may be from golden's, relative to it."""
_EQUATIONS = 8
"""Numbers that must agree on one decay: a sketch of a parameter has four."""


@dataclass(frozen=True)
class Keeps(Claim):
    """What a copy keeps of itself in one of its first updates, counted from 0; the rest is taken of a model."""

    copy: str
    of: str
    update: Natural
    kept: float


@dataclass(frozen=True)
class _Update:
    """One update of a copy: the time when it was seen, and what it kept."""

    at: int
    kept: float


class Averages:
    """A copy that follows a model (an average of weights, a target network) keeps the same share of itself.

    What a copy has after an update is the best average of what it had and what the model has, or the rule is silent:
    the decay comes from the numbers, and not from any call, so that every way to write the update is one.
    """

    name = "Averages"
    looks: ClassVar[Looks] = frozenset({SKETCHES})
    claims: ClassVar[tuple[type[Claim], ...]] = (Keeps,)

    def layer(self, claim: Keeps) -> int:
        return 2

    def meaning(self, rule: Invariant[Keeps]) -> Meaning:
        words = Words(parts=("ema", "decay", "tau", "momentum", "average", "averaged", "polyak", "target"))
        return Meaning(Place.AVERAGING, words=words)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for position in range(len(run.processes)):
            for (copy, of), updates in _updates(run, position).items():
                for number, update in enumerate(updates):
                    claim = Keeps(copy, of, number, float(f"{update.kept:.3g}"))
                    yield Hypothesis(self.name, copy, claim, Kind.BEHAVIOUR, Scope.PINNED)

    def examples(self, claim: Keeps, run: Run) -> Examples:
        return Examples.concatenate([_examples(run, position, claim) for position in range(len(run.processes))])

    def sentence(self, claim: Keeps, subject: str, when: str) -> str:
        return f"Update {claim.update} of `{claim.copy}` {_shares(claim.kept, claim.of, 's')}{when}."

    def finding(self, invariant: Invariant[Keeps], run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        first = int(broken[0])
        seen = float(examples.observed[first]) if examples.observed is not None else math.nan
        process = run.processes[int(examples.process[first])]
        names = [name for name in process.names.variables if name.startswith(f"{claim.copy}.")]
        return Finding(
            f"An update of `{claim.copy}` {_shares(claim.kept, claim.of, '', past=True)} in the golden run; in the "
            f"candidate it {_shares(seen, claim.of, 's')}: its decay is {seen:.4g} instead of {claim.kept:.4g}.",
            f"a decay of {claim.kept:.4g}",
            f"a decay of {seen:.4g}",
            variables=tuple(dict.fromkeys(names))[:64],
            # Updates of one copy, of which each is a rule.
            common_cause=f"average {claim.copy}",
        )


def _shares(kept: float, of: str, ending: str, *, past: bool = False) -> str:
    keep, take = ("kept", "took") if past else (f"keep{ending}", f"take{ending}")
    return f"{keep} {kept:.4g} of it and {take} {1 - kept:.4g} of `{of}`"


def _examples(run: Run, position: int, claim: Keeps) -> Examples:
    updates = _updates(run, position).get((claim.copy, claim.of), [])
    if claim.update >= len(updates):
        return EMPTY
    update = updates[claim.update]
    process = run.processes[position]
    stretch = process.raw.stretch
    if stretch is not None and update.at > stretch.head_end:
        return EMPTY  # Updates behind a resume are later ones, and a decay may rise for as long as it likes.
    ended = [step.row for step in process.lead_steps if step.end <= update.at]
    apart = abs(update.kept - claim.kept)
    holds = apart <= _SAME * max(1 - claim.kept, 1 - update.kept) and apart <= _SAME
    return Examples(
        np.array([holds or apart <= 1e-6]),
        np.array([position]),
        np.array(ended[-1:] or [0], dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        {"rank": rank_label(process, 1)},
        Labels.of(np.zeros(1, dtype=np.int64), (f"{update.kept:.6g}",)),
    )


def _updates(run: Run, position: int) -> Mapping[tuple[str, str], list[_Update]]:
    """The updates of each copy, with the model that it follows, that were sketched in a process."""
    return run.memo(("averages", position), lambda: _found(run, position))


def _found(run: Run, position: int) -> Mapping[tuple[str, str], list[_Update]]:
    recorded = record(run)
    if recorded is None:
        return {}
    side = Computed(recorded.recording, position)
    process = run.processes[position]
    variables = Variables.of(process)
    # Sketches know a tensor by the first of its names.
    trained = variables.first_name[np.flatnonzero(variables.held)]
    held = {process.names.variables[number].partition(".")[0] for number in trained.tolist()}
    parts: dict[str, dict[str, list[Tensor]]] = {}
    for (kind, name), tensors in side.values.items():
        root, _, rest = name.partition(".")
        if kind == "parameter" and rest:
            parts.setdefault(root, {})[rest] = tensors
    found: dict[tuple[str, str], list[_Update]] = {}
    for copy, mine in parts.items():
        if copy in held:
            continue
        for root in held & parts.keys():
            theirs = parts[root]
            if mine.keys() <= theirs.keys() and all(mine[name][0].shape == theirs[name][0].shape for name in mine):
                updates = _of_pair(side, copy, root, mine)
                if updates:
                    found[copy, root] = updates
    return found


def _of_pair(side: Computed, copy: str, root: str, mine: Mapping[str, list[Tensor]]) -> list[_Update]:
    times = sorted({tensor.at for tensors in mine.values() for tensor in tensors[1:]})
    found: list[_Update] = []
    for before, at in _looks(times, mine):
        kept = _kept(side, copy, root, list(mine), before, at)
        if kept is None:
            return found
        found.append(_Update(at, kept))
    return found


def _looks(times: list[int], mine: Mapping[str, list[Tensor]]) -> list[tuple[int, int]]:
    """When a copy had not been updated yet, and when all of it was seen to be. All of its parameters are looked at one
    after the other, each at a time of its own.
    """
    size = max((len(tensors) for tensors in mine.values()), default=0)
    groups: list[list[int]] = [[] for _ in range(size)]
    for tensors in mine.values():
        for number, tensor in enumerate(tensors):
            groups[number].append(tensor.at)
    return [(max(one), max(other)) for one, other in pairwise(groups)] if times else []


def _kept(side: Computed, copy: str, root: str, names: list[str], before: int, at: int) -> float | None:
    """The share that an update keeps; None where it is no average of what both were, or rounding hides it."""
    was: list[float] = []
    now: list[float] = []
    noise = 0.0
    for name in names:
        early, late = side.value("parameter", f"{copy}.{name}", before), side.value("parameter", f"{copy}.{name}", at)
        of = side.value("parameter", f"{root}.{name}", at)
        if early is None or late is None or of is None or early.digest or late.digest or of.digest:
            return None
        for one, other, third in zip(early.projections, late.projections, of.projections, strict=True):
            was.append(one - third)
            now.append(other - third)
        noise = math.hypot(noise, _EPSILON * (early.norm + of.norm))
    apart, left = np.array(was), np.array(now)
    size = float(np.linalg.norm(apart)) / 2.0  # four projections of each: half of that estimates the distance
    if len(apart) < _EQUATIONS or not math.isfinite(size) or noise > _NOISE * size:
        return None
    kept = float(apart @ left) / float(apart @ apart)
    rest = float(np.linalg.norm(left - kept * apart)) / 2.0
    return kept if rest <= _FIT * size * max(abs(1 - kept), _NOISE) + 4 * noise else None
