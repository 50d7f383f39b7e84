"""Averages: how much of itself a copy of a model keeps when it follows the model: its decay."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Set
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
_STEPS = 3
"""So many steps show whether a copy is equal to its model again and again."""
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
class Differs(Claim):
    """What has been updated as an average is another set of numbers than the model that it follows."""

    copy: str
    of: str


@dataclass(frozen=True)
class _Update:
    """One update of a copy: the time when it was seen, and what it kept."""

    at: int
    kept: float


class Averages:
    """A copy that follows a model (an average of weights, a target network) keeps the same share of itself.

    What a copy has after an update is the best average of what it had and what the model has, or the rule is silent:
    the decay comes from the numbers, and not from any call, so that every way to write the update is one. Later, when
    numbers are no longer sketched, an average is still never equal to the model that goes on: it would be that model,
    or a plain copy.
    """

    name = "Averages"
    looks: ClassVar[Looks] = frozenset({SKETCHES})
    claims: ClassVar[tuple[type[Claim], ...]] = (Keeps, Differs)

    def layer(self, claim: Keeps | Differs) -> int:
        return 2

    def meaning(self, rule: Invariant[Keeps | Differs]) -> Meaning:
        words = Words(parts=("ema", "decay", "tau", "momentum", "average", "averaged", "polyak", "target"))
        return Meaning(Place.AVERAGING, words=words)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for position in range(len(run.processes)):
            for (copy, of), updates in _updates(run, position).items():
                if any(abs(update.kept) > _SAME for update in updates):
                    yield Hypothesis(self.name, copy, Differs(copy, of), Kind.BEHAVIOUR, Scope.PINNED)
                for number, update in enumerate(updates):
                    claim = Keeps(copy, of, number, float(f"{update.kept:.3g}"))
                    yield Hypothesis(self.name, copy, claim, Kind.BEHAVIOUR, Scope.PINNED)

    def examples(self, claim: Keeps | Differs, run: Run) -> Examples:
        positions = range(len(run.processes))
        if isinstance(claim, Differs):
            return Examples.concatenate([_equal(run, position, claim) for position in positions])
        return Examples.concatenate([_examples(run, position, claim) for position in positions])

    def sentence(self, claim: Keeps | Differs, subject: str, when: str) -> str:
        if isinstance(claim, Differs):
            return f"`{claim.copy}` is never equal to `{claim.of}`, of which it is an average{when}."
        return f"Update {claim.update} of `{claim.copy}` {_shares(claim.kept, claim.of, 's')}{when}."

    def finding(self, invariant: Invariant[Keeps | Differs], run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        first = int(broken[0])
        process = run.processes[int(examples.process[first])]
        names = [name for name in process.names.variables if name.startswith(f"{claim.copy}.")]
        variables, cause = tuple(dict.fromkeys(names))[:64], f"average {claim.copy}"
        if isinstance(claim, Differs):
            return Finding(
                f"`{claim.copy}` was an average of `{claim.of}` in the golden run; in the candidate it has the values "
                f"of `{claim.of}` in every step: it keeps nothing of its own, or is the same tensors.",
                f"other values than `{claim.of}`",
                f"the values of `{claim.of}`",
                variables=variables,
                common_cause=cause,
            )
        seen = float(examples.observed[first]) if examples.observed is not None else math.nan
        return Finding(
            f"An update of `{claim.copy}` {_shares(claim.kept, claim.of, '', past=True)} in the golden run; in the "
            f"candidate it {_shares(seen, claim.of, 's')}: its decay is {seen:.4g} instead of {claim.kept:.4g}.",
            f"a decay of {claim.kept:.4g}",
            f"a decay of {seen:.4g}",
            variables=variables,
            # Updates of one copy, of which each is a rule.
            common_cause=cause,
        )


def _equal(run: Run, position: int, claim: Differs) -> Examples:
    """The steps at whose beginning a copy has the values of its model, as it had one step before, though both steps
    changed the model. A copy that is reset is equal to it once; one of a model that stands still comes to be.
    """
    process = run.processes[position]
    variables = Variables.of(process)
    names = {process.names.variables[number]: number for number in variables.ids("parameter", tied=True).tolist()}
    mine = [name for name in names if name.startswith(f"{claim.copy}.")]
    pairs = [(names[name], names.get(claim.of + name.removeprefix(claim.copy), 0)) for name in mine]
    begins = np.array([step.begin for step in process.lead_steps], dtype=np.int64)
    if not pairs or not all(theirs for _, theirs in pairs) or len(begins) < _STEPS:
        return EMPTY
    numbers = variables.first_name[np.array(pairs, dtype=np.int64)]
    rows = variables.last(np.repeat(numbers.reshape(-1), len(begins)), np.tile(begins, numbers.size))
    digests = np.where(rows >= 0, process.events["digest"][np.maximum(rows, 0)], 0).reshape(len(pairs), 2, len(begins))
    known = (rows >= 0).reshape(digests.shape).all(axis=(0, 1))
    same = known & (digests[:, 0] == digests[:, 1]).all(axis=0)
    moved = np.append(False, (digests[:, 1, 1:] != digests[:, 1, :-1]).any(axis=0))
    again = moved & same
    broken = again[1:] & again[:-1]
    steps = np.array([step.row for step in process.lead_steps], dtype=np.int64)[:-1]
    size = len(steps)
    where, context = np.full(size, position), {"rank": rank_label(process, size)}
    return Examples(~broken, where, steps, np.zeros(size, dtype=np.int64), context)


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
    """The updates of each copy, with the model that it follows or the part of one, that were sketched in a process."""
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
    held = {process.names.variables[number] for number in trained.tolist()}
    parts: dict[str, dict[str, list[Tensor]]] = {}
    for (kind, name), tensors in side.values.items():
        root, _, rest = name.partition(".")
        if kind == "parameter" and rest:
            parts.setdefault(root, {})[rest] = tensors
    found: dict[tuple[str, str], list[_Update]] = {}
    models = sorted({name.partition(".")[0] for name in held} & parts.keys())
    for copy, mine in _untrained(parts, held):
        for root in models:
            for of in _like(mine, root, parts[root]):
                if any(f"{of}.{name}" in held for name in mine) and (updates := _of_pair(side, copy, of, mine)):
                    found[copy, of] = updates
    return found


def _untrained(
    parts: Mapping[str, Mapping[str, list[Tensor]]], held: Set[str]
) -> Iterator[tuple[str, Mapping[str, list[Tensor]]]]:
    """The models of which no optimizer holds anything, and the largest such parts of others, with what they hold."""
    for root, tensors in parts.items():
        names = {f"{root}.{rest}" for rest in tensors}
        trained = {prefix for name in names & held for prefix in _around(name)}
        tops = {next((prefix for prefix in _around(name) if prefix not in trained), "") for name in names - held}
        for top in sorted(tops - {""}):
            within = f"{top}.".removeprefix(f"{root}.")
            yield top, {rest.removeprefix(within): tensors[rest] for rest in tensors if rest.startswith(within)}


def _around(name: str) -> list[str]:
    """The modules that a parameter lies in, outermost first."""
    steps = name.split(".")
    return [".".join(steps[:length]) for length in range(1, len(steps))]


def _like(mine: Mapping[str, list[Tensor]], root: str, theirs: Mapping[str, list[Tensor]]) -> Iterator[str]:
    """The parts of a model, or the whole of it, with all parameters of a copy, in names and in shapes."""
    one = next(iter(mine))
    for name in theirs:
        if name == one or name.endswith(f".{one}"):
            path = name.removesuffix(one)
            others = [theirs.get(f"{path}{key}") for key in mine]
            pairs = zip(mine.values(), others, strict=True)
            if all(other is not None and own[0].shape == other[0].shape for own, other in pairs):
                yield f"{root}.{path}".rstrip(".")


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
