"""Periodic: after how many steps of a run something happens that does not happen in every one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations import vocabulary
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.called import FORWARD, Called
from pytest_traincheck.relations.claims import Items, Natural
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.counted import RESTORE, counted, said_otherwise, skipped_windows
from pytest_traincheck.relations.meaning import Change, Deviation, Evidence, Meaning, Place, Words, place_of_call
from pytest_traincheck.relations.recurring import is_scheduled, is_used, pace_of, row_of, stopped_after
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.text import steps_listed
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Ints, Labels
from pytest_traincheck.trace.variables import Variables

LIMIT = 64
"""Most points that are written into a golden."""
_COPIES = "torch.nn.Parameter"
_COPYING = Words(names=("update_parameters", "lerp", "copy_", "mul_", "load_state_dict"), parts=("ema", "target"))

Points = Annotated[tuple[Natural, ...], Items(1, LIMIT)]


@dataclass(frozen=True)
class CalledAfter(Claim):
    """Something is called after so many steps of a run, and after no other number of them (evaluations may come at
    other points as well); where it comes with evaluations, `or_fewer`: it may be up to what they find. `steps` are
    those of the whole run.
    """

    of: Literal["call"] = field(default="call", init=False)
    api: Called
    at: Points
    steps: Natural
    or_fewer: bool = False


@dataclass(frozen=True)
class CopiedAfter(Claim):
    """Parameters of a model that no optimizer holds change after so many steps of a run, and after no other number;
    `steps` and `or_fewer` as above.
    """

    of: Literal["copy"] = field(default="copy", init=False)
    root: str
    at: Points
    steps: Natural
    or_fewer: bool = False


class Periodic:
    """What comes every so many steps (copies into a target network, averages, evaluations, restored state, phases of a
    schedule) comes after the same numbers of steps in every run.

    What golden seeds differ in, as where training stops when nothing improves, is no rule. What comes in every step is
    the business of `Count` and `Moves`, and so is what never comes at all.
    """

    name = "Periodic"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (CalledAfter, CopiedAfter)

    def layer(self, claim: CalledAfter | CopiedAfter) -> int:
        return 1 if isinstance(claim, CalledAfter) else 4

    def meaning(self, rule: Invariant[CalledAfter | CopiedAfter]) -> Meaning:
        claim, shifts = rule.claim, frozenset({Change.LENGTH, Change.WINDOWS, Change.LOOP})
        if isinstance(claim, CopiedAfter):
            return Meaning(
                Place.COPY,
                comes_with=shifts,
                between_steps=True,
                by_length=True,
                recurs=True,
                shown_by=Evidence.COPIED,
                words=_COPYING,
            )
        return Meaning(
            place_of_call(rule.subject),
            comes_with=shifts,
            between_steps=True,
            by_length=True,
            recurs=True,
            model=claim.api.model,
            evaluates=claim.api.stage == "eval",
            shown_by=_shown_by(claim.api),
        )

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            if len(skipped_windows(process)):
                continue  # The data decide which steps are taken, and with them where everything else is.
            for called, rows in sorted(counted(process).items()):
                at = _points(process, rows)
                if _is_sometimes(process, called) and _says_something(process, at):
                    fewer = _may_be_left_out(process, called) and _comes_with_evaluations(process, at)
                    claim = CalledAfter(called, tuple(at), process.windows, fewer)
                    yield Hypothesis(self.name, called.api, claim, scope=Scope.PINNED)
            for root, at in sorted(_copied(process).items()):
                # One that is there for a while only follows in every step until then.
                if _says_something(process, at) and at != [*range(1, at[-1] + 1)]:
                    copied = CopiedAfter(root, tuple(at), process.windows, _comes_with_evaluations(process, at))
                    yield Hypothesis(self.name, _COPIES, copied, scope=Scope.PINNED)

    def examples(self, claim: CalledAfter | CopiedAfter, run: Run) -> Examples:
        parts = [
            _example(process, position, claim)
            for position, process in enumerate(run.processes)
            if not len(skipped_windows(process))
        ]
        return Examples.concatenate(parts)

    def sentence(self, claim: CalledAfter | CopiedAfter, subject: str, when: str) -> str:
        if isinstance(claim, CopiedAfter):
            what, often = f"Parameters of `{claim.root}`, which no optimizer holds, change", _steps(claim.at)
        else:
            what, often = f"{_capital(claim.api.code)} is called", f"{_steps(claim.at)} of a run"
        return f"{what} after {often}{', or after some of these' if claim.or_fewer else ''}{when}."

    def finding(
        self, invariant: Invariant[CalledAfter | CopiedAfter], run: Run, examples: Examples, broken: Ints
    ) -> Finding:
        claim, place = invariant.claim, int(broken[0])
        process = run.processes[int(examples.process[place])]
        if process.raw.stretch is not None:
            return _no_more(claim, process.step_number(int(examples.row[place])))
        found = _found(process, claim)
        deviation = _deviation(found, claim.at)
        golden, seen = _steps(claim.at), _steps(found)
        if isinstance(claim, CopiedAfter):
            return Finding(
                f"The parameters of `{claim.root}`, which no optimizer holds, changed after {golden} of the golden "
                f"run; in the candidate they change after {seen}: they are copied or averaged {_how(deviation)}.",
                f"change after {golden}",
                f"change after {seen}",
                value=seen,
                deviation=deviation,
            )
        return Finding(
            f"{_capital(claim.api.code)} was called after {golden} of the golden run; in the candidate it is called "
            f"after {seen}: {_how(deviation)}.",
            f"called after {golden}",
            f"called after {seen}",
            value=seen,
            deviation=deviation,
        )


def _no_more(claim: CalledAfter | CopiedAfter, step: int) -> Finding:
    """Of something that came at a pace and comes no more."""
    golden = f"after every {pace_of(claim.at, claim.steps)} steps"
    if isinstance(claim, CopiedAfter):
        return Finding(
            f"The parameters of `{claim.root}`, which no optimizer holds, changed {golden} of the golden run, and in "
            f"the beginning of the candidate; from step {step} on they do not change any more: they are copied or "
            "averaged no longer.",
            f"change {golden}",
            f"do not change any more from step {step} on",
            deviation=Deviation.FEWER,
        )
    return Finding(
        f"{_capital(claim.api.code)} was called {golden} of the golden run, and in the beginning of the candidate; "
        f"from step {step} on it is not called any more.",
        f"called {golden}",
        f"not called any more from step {step} on",
        deviation=Deviation.FEWER,
    )


def _shown_by(called: Called) -> Evidence:
    """What shows that it makes no difference: a model may begin as a copy instead of loading one."""
    if called.api.endswith(RESTORE):
        return Evidence.USED
    return Evidence.EVALUATED if called.api == FORWARD else Evidence.NONE


def _deviation(found: Sequence[int], golden: Sequence[int]) -> Deviation:
    if len(found) == len(golden):
        return Deviation.MISPLACED
    return Deviation.FEWER if len(found) < len(golden) else Deviation.TOO_OFTEN


def _how(deviation: Deviation) -> str:
    if deviation is Deviation.MISPLACED:
        return "at other steps"
    return "less often" if deviation is Deviation.FEWER else "more often"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _steps(points: Sequence[int]) -> str:
    """Points in words: "0, 4, 8 and 12 steps"."""
    return f"{steps_listed(points)} {'step' if tuple(points) == (1,) else 'steps'}"


def _points(process: Process, rows: Ints) -> list[int]:
    """After how many steps the calls come."""
    found: list[int] = np.unique(process.window[rows]).tolist()
    return found


def _is_sometimes(process: Process, called: Called) -> bool:
    """Whether it is worth asking where in a run something is called: what layers a model has, and which optimizer
    trains first, is said elsewhere.
    """
    if called.api in vocabulary.LAYER_FUNCTIONS or called.api == vocabulary.MASKING:
        return False
    if called.api == FORWARD:
        return called.stage == "eval"
    if said_otherwise(process, called):
        return False
    leading = {f"{process.optimizer_class[step.optimizer]}.step" for step in process.lead_steps}
    names = {process.names.optimizers[step.optimizer] for step in process.lead_steps}
    return called.owner not in names if called.owner else called.api not in leading


def _may_be_left_out(process: Process, called: Called) -> bool:
    """The best weights are kept, or taken back, and ranks wait for that; schedulers and averages go on regardless."""
    types = dict(zip(process.api_names, process.api_types, strict=True))
    return called.api.endswith(RESTORE) or types.get(called.api) == "collective"


def _comes_with_evaluations(process: Process, at: Sequence[int]) -> bool:
    """Whether models are evaluated, now and then, at all of these points of the training."""
    later = {point for point in at if point}
    return bool(later) and later <= _evaluations(process)


def _evaluations(process: Process) -> set[int]:
    """The points at which models are evaluated now and then."""
    evaluated = (_points(process, rows) for called, rows in counted(process).items() if called.stage == "eval")
    return {point for points in evaluated if _says_something(process, points) for point in points}


def _says_something(process: Process, at: Sequence[int]) -> bool:
    """What comes in every step is no matter of periods; one that is long is not written down."""
    return 0 < len(at) <= LIMIT and process.windows > 1 and not set(range(1, process.windows)) <= set(at)


def _found(process: Process, claim: CalledAfter | CopiedAfter) -> list[int]:
    if isinstance(claim, CopiedAfter):
        return _copied(process).get(claim.root, [])
    return _points(process, _rows(process, claim))


def _rows(process: Process, claim: CalledAfter | CopiedAfter) -> Ints:
    """Where it happens."""
    if isinstance(claim, CalledAfter):
        return counted(process).get(claim.api, np.empty(0, dtype=np.int64))
    rows = _changes(process)
    roots = Labels.of(Variables.of(process).root[process.events["subject"][rows]], process.names.roots)
    return rows[roots.isin([claim.root])]


def _example(process: Process, position: int, claim: CalledAfter | CopiedAfter) -> Examples:
    """A single example for a process in which it happens at all, at the first place where it should or should not."""
    if process.raw.stretch is not None:
        return _later_example(process, position, claim)
    rows, found, wanted = _rows(process, claim), _found(process, claim), [*claim.at]
    if process.raw.until is not None:
        # The beginning of a longer run: what comes behind the last of these steps is not there.
        found, wanted = ([point for point in points if point < process.windows] for points in (found, wanted))
    # In a run of another length, which `Total` tells, everything may come elsewhere.
    if not found or process.windows != claim.steps:
        return EMPTY
    evaluates = isinstance(claim, CalledAfter) and claim.api.stage == "eval"
    if evaluates and len(found) < len(wanted):
        return EMPTY  # `Total` tells that evaluations are missing.
    missing = [] if claim.or_fewer else sorted(set(wanted) - set(found))
    # Whoever evaluates more often breaks nothing, and at which of its evaluations something is restored the data say.
    free = _evaluations(process) if claim.or_fewer else set()
    extra = [] if evaluates else sorted(set(found) - set(wanted) - free)
    row = int(rows[0])
    steps = [step.row for step in process.lead_steps]
    if extra and (not missing or extra[0] < missing[0]):
        row = int(rows[process.window[rows] == extra[0]][0])
    elif missing and steps:
        row = steps[min(missing[0], len(steps) - 1)]
    return Examples(
        np.array([not missing and not extra]),
        np.array([position]),
        np.array([row]),
        np.zeros(1, dtype=np.int64),
        {"rank": rank_label(process, 1)},
        Labels.constant(_steps(found), 1),
    )


def _later_example(process: Process, position: int, claim: CalledAfter | CopiedAfter) -> Examples:
    """Whether it goes on in later steps than golden had. What else comes every so many steps, as evaluations do, may be
    up to how long a training is; schedulers are not, nor is a copy that is used.
    """
    if claim.or_fewer or (isinstance(claim, CalledAfter) and not is_scheduled(process, claim.api)):
        return EMPTY
    since = stopped_after(process, _rows(process, claim), claim.at, claim.steps)
    if since is None or (since >= 0 and isinstance(claim, CopiedAfter) and not is_used(process, claim.root, since)):
        return EMPTY
    return Examples(
        np.array([since < 0]),
        np.array([position]),
        np.array([row_of(process, since) if since >= 0 else process.lead_steps[-1].row]),
        np.zeros(1, dtype=np.int64),
        {"rank": rank_label(process, 1)},
    )


def _changes(process: Process) -> Ints:
    """Changes of parameters of models of which no optimizer holds any, in order."""

    def compute() -> Ints:
        variables, events = Variables.of(process), process.events
        ids = variables.ids("parameter")
        held = np.unique(variables.root[variables.held])
        ids = ids[~np.isin(variables.root[ids], held)]
        rows = np.flatnonzero((events["kind"] == fmt.CHANGE) & (events["old"] != fmt.UNSEEN))
        return rows[np.isin(events["subject"][rows], ids)]

    return process.memo("changes of copies", compute)


def _copied(process: Process) -> Mapping[str, list[int]]:
    """After how many steps the parameters of each copy were seen to have changed; not after the last step, when it is
    up to what follows whether anybody looks.
    """
    rows = _changes(process)
    rows = rows[process.window[rows] < process.windows]
    roots = Labels.of(Variables.of(process).root[process.events["subject"][rows]], process.names.roots)
    return {root: _points(process, rows[mine]) for root, mine in roots.groups(np.arange(len(rows))).items()}
