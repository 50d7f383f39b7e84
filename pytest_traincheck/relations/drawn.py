"""Drawn: how many random numbers are drawn, and from which generator."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from pytest_traincheck.golden.numbers import Numbers
from pytest_traincheck.looks import SKETCHES, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.drawn_beside import BESIDE, LEAST, MOST, drawn_about, drawn_beside, examples_beside
from pytest_traincheck.relations.drawn_claims import (
    RATE,
    AnyClaim,
    DrawnAbout,
    DrawnAtAll,
    DrawnBeside,
    DrawnByEvaluation,
    DrawnByExample,
    DrawnByStep,
    DrawnInCalls,
    at_a_time,
    key,
)
from pytest_traincheck.relations.drawn_places import places_of
from pytest_traincheck.relations.drawn_wording import (
    of_about,
    of_beside,
    of_calls,
    of_evaluation,
    of_examples,
    of_nothing,
    of_step,
    rule,
)
from pytest_traincheck.relations.draws import (
    BY_KERNEL,
    GENERATORS,
    OF_TORCH,
    Generator,
    by_evaluation,
    by_example,
    by_step,
    calls_that_draw,
    states_before_training,
)
from pytest_traincheck.relations.given import largest_by_step
from pytest_traincheck.relations.meaning import Evidence, Meaning, Place
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels

SUBJECTS: Mapping[str, str] = {
    "torch": "torch.random",
    "numpy": "numpy.random",
    "python": "random",
    "cuda": "torch.cuda.random",
    "handed": "torch.Generator",
}
RATES = 4
"""So many different numbers may be drawn for an example, by different loaders say; where there are more, chance decides
how many they are.
"""
_LOOKED_AT = 8
_MOST = 2.0**53
"""No run draws as many numbers, and a float counts them one by one up to here."""
_STEP = re.compile(r"\d{1,9}\.\d{1,9}")
_ANY, _MADE_WITH, _WORKERS = "drawn", "torch ", "workers"
_LATER = "later"
"""Name of a number that is there where some steps, or fetches, of golden runs draw nothing: others may come later."""


class Drawn:
    """The same step draws as many numbers in every golden run, whichever functions draw them.

    What is counted is how far a generator has moved. Where golden runs differ in a single step, chance or the data
    decide, and all that is left to claim is that something is drawn.
    """

    name = "Drawn"
    looks: ClassVar[Looks] = frozenset({SKETCHES})
    claims: ClassVar[tuple[type[Claim], ...]] = (
        DrawnByStep, DrawnByEvaluation, DrawnByExample, DrawnAtAll, DrawnInCalls, DrawnBeside,
        DrawnAbout,
    )  # fmt: skip

    def layer(self, claim: AnyClaim) -> int:
        return 2

    def meaning(self, rule: Invariant[AnyClaim]) -> Meaning:
        # What is called, and how, decides what is drawn: that comes first.
        evaluates = isinstance(rule.claim, DrawnByEvaluation)
        by_worker = (
            isinstance(rule.claim, (DrawnByExample, DrawnAtAll)) and getattr(rule.claim, "within", "") != "steps"
        )
        # Numbers may be drawn before the loop as well as in it, and beside those that anything is made of.
        shown_by = Evidence.EVALUATED if evaluates else Evidence.NONE if by_worker else Evidence.TRAINED
        return Meaning(Place.DRAWS, order=1, shown_by=shown_by)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for generator in GENERATORS:
            yield self._hypothesis(DrawnByStep(generator), f"steps {generator}")
            if generator not in OF_TORCH:
                yield self._hypothesis(DrawnAbout(generator), f"steps {generator}")
            yield self._hypothesis(DrawnAtAll(generator, "steps"), f"steps {generator}")
            yield self._hypothesis(DrawnByEvaluation(generator), f"evaluations {generator}")
            if generator != BY_KERNEL:
                yield self._hypothesis(DrawnByExample(generator), f"examples {generator}")
            yield self._hypothesis(DrawnAtAll(generator, "examples"), f"examples {generator}")
        yield self._hypothesis(DrawnBeside(), "beside torch")
        for process in run.processes:
            for api, calls in calls_that_draw(process).items():
                if any(drew for _, drew in calls):
                    yield Hypothesis(self.name, api, DrawnInCalls(api), scope=Scope.PINNED)

    def _hypothesis(
        self,
        claim: DrawnByStep | DrawnByEvaluation | DrawnByExample | DrawnAtAll | DrawnBeside | DrawnAbout,
        family: str,
    ) -> Hypothesis:
        return Hypothesis(self.name, SUBJECTS[claim.generator], claim, scope=Scope.PINNED, family=family)

    def fit(self, claim: AnyClaim, runs: Sequence[Run]) -> Numbers | None:
        """What every golden run draws; None where that differs, or where there is one seed to go by."""
        if len({states_before_training(run) for run in runs}) < 2:
            return None  # what one seed draws may be up to chance
        if isinstance(claim, DrawnByStep):
            return _fit_steps(claim, runs)
        if isinstance(claim, DrawnByEvaluation):
            return _fit_counts(claim, runs)
        if isinstance(claim, DrawnByExample):
            return _fit_rates(claim.generator, runs)
        if isinstance(claim, (DrawnBeside, DrawnAbout)):
            return _fit_beside(claim, runs)
        if isinstance(claim, DrawnInCalls):
            calls = [_calls(claim, run) for run in runs]
            return _numbers({_ANY: 1.0}) if all(len(part) and part.holds.all() for part in calls) else None
        if not all(_draws(claim, run) for run in runs):
            return None
        return _numbers(
            {_ANY: 1.0} | ({_LATER: 1.0} if any(_draws_nothing_somewhere(claim, run) for run in runs) else {})
        )

    def suits(self, claim: AnyClaim, numbers: Numbers) -> bool:
        """Whether the names are those of steps, of rates, or of what is drawn at all; and counts are counts."""
        if isinstance(claim, (DrawnByStep, DrawnByEvaluation)):
            counts = (numbers.low >= 0) & (numbers.low < _MOST) & (numbers.low == np.floor(numbers.low))
            return any(_STEP.fullmatch(name) for name in numbers.names) and bool(counts.all())
        if isinstance(claim, DrawnBeside):
            return BESIDE in numbers.position and 0 < numbers.low[numbers.position[BESIDE]] < _MOST
        if isinstance(claim, DrawnAbout):
            return all(name in numbers.position and numbers.low[numbers.position[name]] > 0 for name in (LEAST, MOST))
        prefix = RATE if isinstance(claim, DrawnByExample) else _ANY
        return any(name.startswith(prefix) for name in numbers.names)

    def examples(self, claim: AnyClaim, run: Run) -> Examples:
        if isinstance(claim, DrawnInCalls):
            return _calls(claim, run)
        if not isinstance(claim, DrawnAtAll) and not _counts_alike(claim, run):
            return EMPTY
        if isinstance(claim, (DrawnByStep, DrawnByEvaluation)):
            parts = [_steps(process, number, claim) for number, process in enumerate(run.processes)]
            return Examples.concatenate(parts)
        if isinstance(claim, DrawnByExample):
            return _fetches(claim, run)
        if isinstance(claim, (DrawnBeside, DrawnAbout)):
            return Examples.concatenate(
                [examples_beside(process, at, claim) for at, process in enumerate(run.processes)]
            )
        return _at_all(claim, run)

    def sentence(self, claim: AnyClaim, subject: str, when: str) -> str:
        return rule(claim, when)

    def finding(self, invariant: Invariant[AnyClaim], run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        first = int(broken[0])
        row = int(examples.row[first])
        process = run.processes[int(examples.process[first])]
        seen = examples.observed[first] if examples.observed is not None else "0"
        if isinstance(claim, DrawnByStep):
            step = process.step_number(row)
            return of_step(claim, process, step, int(float(seen)))
        if isinstance(claim, DrawnByEvaluation):
            return of_evaluation(claim, process, row, int(float(seen)))
        if isinstance(claim, DrawnByExample):
            assert examples.observed is not None
            return of_examples(claim, [examples.observed[position] for position in broken.tolist()])
        if isinstance(claim, DrawnInCalls):
            return of_calls(claim, process.module_name(row))
        if isinstance(claim, DrawnBeside):
            return of_beside(claim)
        if isinstance(claim, DrawnAbout):
            return of_about(claim, seen.split())
        return of_nothing(claim)


def _version(run: Run) -> str:
    return str(run.processes[0].raw.meta.get("versions", {}).get("torch", "")) if run.processes else ""


def _counts_alike(claim: DrawnByStep | DrawnByEvaluation | DrawnByExample | DrawnBeside | DrawnAbout, run: Run) -> bool:
    """Whether functions take as many numbers as in the golden runs: another torch may need others for the same. And
    whether workers make the batches, as there, or nobody but the process that trains.
    """
    names = claim.numbers.position
    if claim.of in ("steps", "beside", "about") and (_WORKERS in names) != bool(run.workers):
        return False
    return claim.generator != "torch" or f"{_MADE_WITH}{_version(run)}" in names


# Training steps


def _fit_steps(claim: DrawnByStep, runs: Sequence[Run]) -> Numbers | None:
    found = _fit_counts(claim, runs)
    if found is None:
        return None
    # Whether anything is drawn does not depend on the size of a batch.
    examples = _common([_examples_at_a_time(run) for run in runs]) if claim.generator != BY_KERNEL else {}
    where = _common([places_of(run) for run in runs]) if claim.generator == "torch" else {}
    return _numbers(dict(zip(found.names, found.low.tolist(), strict=True)) | examples | where)


def _examples_at_a_time(run: Run) -> dict[str, float]:
    return {
        at_a_time(process, step): float(size)
        for process in run.processes
        for step, size in largest_by_step(process).items()
        if step < min(_LOOKED_AT, process.windows)
    }


def _fit_counts(claim: DrawnByStep | DrawnByEvaluation, runs: Sequence[Run]) -> Numbers | None:
    counted = [_counts(run, claim) for run in runs]
    first = counted[0]
    if not all(map(_one_training, runs)) or any(other != first for other in counted):
        return None
    found = {name: count for name, count in first.items() if math.isfinite(count)}
    if not found or (claim.generator not in OF_TORCH and not any(found.values())):
        return None  # much that has nothing to do with training draws from the others: names of files, for one
    if claim.generator == "torch":
        found[f"{_MADE_WITH}{_version(runs[0])}"] = 1.0
    if runs[0].workers:
        found[_WORKERS] = 1.0
    return _numbers(found)


def _fit_beside(claim: DrawnBeside | DrawnAbout, runs: Sequence[Run]) -> Numbers | None:
    if not all(map(_one_training, runs)):
        return None
    found = drawn_beside(runs) if isinstance(claim, DrawnBeside) else drawn_about(runs, claim.generator)
    if found is None:
        return None
    found[f"{_MADE_WITH}{_version(runs[0])}"] = 1.0
    return _numbers(found | ({_WORKERS: 1.0} if runs[0].workers else {}))


def _counts(run: Run, claim: DrawnByStep | DrawnByEvaluation) -> dict[str, float]:
    return {key(process, step): count for process in run.processes for step, count in _counted(process, claim).items()}


def _counted(process: Process, claim: DrawnByStep | DrawnByEvaluation) -> dict[int, float]:
    """The numbers that each step draws, or the evaluation after so many steps."""
    return (by_step if isinstance(claim, DrawnByStep) else by_evaluation)(process, claim.generator)


def _one_training(run: Run) -> bool:
    """Whether each rank is one process: a script may start several trainings, one after the other."""
    ranks = [process.rank for process in run.processes if process.windows]
    return len(set(ranks)) == len(ranks)


def _common(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """What all have, and alike."""
    first, *others = found
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def _numbers(found: Mapping[str, float]) -> Numbers:
    values = np.array(list(found.values()), dtype=np.float64)
    return Numbers(tuple(found), values, values)


def _steps(process: Process, position: int, claim: DrawnByStep | DrawnByEvaluation) -> Examples:
    numbers = claim.numbers
    drawn = _counted(process, claim)
    rows = _rows_of(process, claim)
    known = [
        (step, count, float(numbers.low[place]))
        for step, count in sorted(drawn.items())
        if (place := numbers.position.get(key(process, step))) is not None and math.isfinite(count) and step in rows
    ]
    if not known:
        return EMPTY
    ahead = np.cumsum([count - wanted for _, count, wanted in known])
    holds = np.array([count == wanted for _, count, wanted in known])
    whole = len(known) == process.windows
    if isinstance(claim, DrawnByStep) and _prepared_ahead(ahead, whole=whole):
        holds[:] = True
    # What golden draws in its fourth step a longer training may come to in its fortieth.
    usual = _in_any_step(claim, process)
    return Examples(
        holds,
        np.full(len(known), position),
        np.array([rows[step] for step, _, _ in known], dtype=np.int64),
        np.zeros(len(known), dtype=np.int64),
        {"rank": rank_label(process, len(known))},
        Labels.of(np.arange(len(known)), [f"{count:.0f}" for _, count, _ in known]),
        ~holds & np.array([count in usual for _, count, _ in known]),
    )


def _in_any_step(claim: DrawnByStep | DrawnByEvaluation, process: Process) -> frozenset[float]:
    """The numbers that golden's steps of this rank draw, or its evaluations."""
    numbers = claim.numbers
    of_rank = (at for name, at in numbers.position.items() if name.startswith(f"{process.rank}."))
    return frozenset(float(numbers.low[at]) for at in of_rank)


def _rows_of(process: Process, claim: DrawnByStep | DrawnByEvaluation) -> dict[int, int]:
    """The row that stands for each step, or for each evaluation: its first call of a model."""
    if isinstance(claim, DrawnByStep):
        return {number: step.row for number, step in enumerate(process.lead_steps)}
    rows = process.measures("evaluated.torch")[::-1]
    return dict(zip(process.window[rows].tolist(), process.parent_row[rows].tolist(), strict=True))


def _prepared_ahead(ahead: Ints, *, whole: bool) -> bool:
    """Whether all is drawn that golden draws, and some of it earlier: a loop may fetch batches before it needs them.
    What it fetches before the first forward pass does not count, and is missing in the last step of a run.

    `ahead` is by how much more has been drawn after each step. At the end of a run nothing is left to come; before it
    what came earlier stays ahead.
    """
    if whole and len(ahead) > 2 and ahead[-1] < 0 and not ahead[:-1].any():
        return True
    if whole and ahead[-1] == 0:
        return bool((ahead >= 0).all() or (ahead <= 0).all())
    return not whole and bool(ahead[0] > 0 and (ahead == ahead[0]).all())


# Examples that workers make


def _fit_rates(generator: Generator, runs: Sequence[Run]) -> Numbers | None:
    rates = [by_example(run, generator) for run in runs]
    first = rates[0]
    if not any(first) or len(first) > RATES or any(other != first for other in rates):
        return None
    if not all(map(math.isfinite, first)):
        return None
    made_with = {f"{_MADE_WITH}{_version(runs[0])}": 1.0} if generator == "torch" else {}
    return _numbers({f"{RATE}{number}": rate for number, rate in enumerate(sorted(first))} | made_with)


def _fetches(claim: DrawnByExample, run: Run) -> Examples:
    """One example for each number that is drawn for an example, here or in the golden runs; all at the first batch."""
    rates = by_example(run, claim.generator)
    if not rates or not run.processes or not all(map(math.isfinite, rates)):
        return EMPTY
    known = set(claim.rates)
    # A loader that draws nothing may come and go.
    found = sorted(rate for rate in rates | known if rate)
    # Examples of another sort may come later, but where all draw and none does, nothing has to be waited for.
    may_come = bool(rates & known) or 0.0 in known
    return _at_first_batch(
        run,
        [rate in known and rate in rates for rate in found],
        [f"{rate:g}" for rate in found],
        [may_come and rate not in rates for rate in found],
    )


def _at_first_batch(run: Run, holds: Sequence[bool], observed: Sequence[str], awaited: Sequence[bool]) -> Examples:
    """Examples about workers, which have no place among the events of the process that trains."""
    rows = run.processes[0].rows_of_type("data", "optimizer")
    size = len(holds)
    return Examples(
        np.array(holds, dtype=bool),
        np.zeros(size, dtype=np.int64),
        np.repeat(rows[:1] if len(rows) else np.zeros(1, dtype=np.int64), size),
        np.zeros(size, dtype=np.int64),
        {},
        Labels.of(np.arange(size), list(observed)),
        np.array(awaited, dtype=bool),
    )


# Whether anything is drawn


def _calls(claim: DrawnInCalls, run: Run) -> Examples:
    found = [
        (number, row, drew)
        for number, process in enumerate(run.processes)
        for row, drew in calls_that_draw(process).get(claim.api, ())
    ]
    if not found:
        return EMPTY
    return Examples(
        np.array([drew for _, _, drew in found]),
        np.array([number for number, _, _ in found]),
        np.array([row for _, row, _ in found]),
        np.zeros(len(found), dtype=np.int64),
    )


def _draws(claim: DrawnAtAll, run: Run) -> bool:
    if claim.within == "examples":
        return any(by_example(run, claim.generator))
    return any(count > 0 for process in run.processes for count in by_step(process, claim.generator).values())


def _draws_nothing_somewhere(claim: DrawnAtAll, run: Run) -> bool:
    if claim.within == "examples":
        return 0.0 in by_example(run, claim.generator)
    steps = (by_step(process, claim.generator) for process in run.processes)
    # What is drawn for the first step comes before the first forward pass, and does not count.
    return any(not count for drawn in steps for step, count in drawn.items() if step)


def _at_all(claim: DrawnAtAll, run: Run) -> Examples:
    if claim.within == "examples":
        looked = bool(by_example(run, claim.generator))
    else:
        looked = any(by_step(process, claim.generator) for process in run.processes)
    draws = _draws(claim, run)
    return _at_first_batch(run, [draws], [""], [not draws and _LATER in claim.numbers.position]) if looked else EMPTY
