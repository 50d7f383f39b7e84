"""Accumulate: which backward passes are summed in the gradient that an optimizer step consumes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, listed, variable_names
from pytest_traincheck.relations.called import Called
from pytest_traincheck.relations.context import rank_label, step_context, variable_context
from pytest_traincheck.relations.count import PerStep
from pytest_traincheck.relations.meaning import Change, Deviation, Meaning, Place
from pytest_traincheck.rules.claims import KEY, Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.gradients import Gradients, first_after
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.variables import Variables

FRESH: Final = "fresh"
WHOLE: Final = "whole"
CLEAN: Final = "clean"
USED: Final = "used"
BACKWARD = "torch.autograd.backward"
_STEPS_AFTER_EACH = Hypothesis("Count", BACKWARD, PerStep(Called(BACKWARD), "once"))

Sort = Literal["fresh", "whole", "clean"]
_SORTS: tuple[Sort, ...] = (FRESH, WHOLE, CLEAN)


@dataclass(frozen=True)
class Consumed(Claim):
    """What the steps of a class of optimizers find in the gradients that they consume."""

    gradient: Sort
    optimizer_class: str = field(metadata={KEY: "class"})


@dataclass(frozen=True)
class Used(Claim):
    """What a backward pass leaves is used by a step."""

    gradient: Literal["used"] = field(default=USED, init=False)


class Accumulate:
    """The gradient of a step holds no backward pass from before the previous step (`fresh`), and all of those since
    (`whole`). What a backward pass leaves is used by a step before it is cleared (`used`).

    Judged by the state of the gradients, not by calls: `optimizer.zero_grad()`, `model.zero_grad()` and `p.grad =
    None` are one, wherever in the loop they stand. Class covered: gradients cleared never, too seldom, too often, or
    for the wrong parameters; gradients that are computed and thrown away.
    """

    name = "Accumulate"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (Consumed, Used)

    def layer(self, claim: Consumed | Used) -> int:
        return 3 if isinstance(claim, Used) else 2

    def meaning(self, rule: Invariant[Consumed | Used]) -> Meaning:
        place = Place.USE if isinstance(rule.claim, Used) else Place.ACCUMULATION
        return Meaning(
            place,
            brings=frozenset({Change.LENGTH}),
            comes_with=frozenset({Change.WINDOWS, Change.LOOP}),
            general=True,
            earliest=1,  # Training starts with clean gradients anyway.
        )

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            for optimizer in sorted({step.optimizer for step in process.steps}):
                subject = _subject(process, optimizer)
                for what in _SORTS:
                    yield Hypothesis(self.name, subject, Consumed(what, process.optimizer_class[optimizer]))
            if process.steps:
                # Where a step follows each backward pass anyway, that is said already.
                once = _STEPS_AFTER_EACH.key
                yield Hypothesis(self.name, BACKWARD, Used(), scope=Scope.PINNED, implied_by=once)

    def examples(self, claim: Consumed | Used, run: Run) -> Examples:
        if isinstance(claim, Used):
            return Examples.concatenate([_passes(process, number) for number, process in enumerate(run.processes)])
        return Examples.concatenate(
            [
                _examples(process, position, claim.gradient, claim.optimizer_class)
                for position, process in enumerate(run.processes)
            ]
        )

    def sentence(self, claim: Consumed | Used, subject: str, when: str) -> str:
        if isinstance(claim, Used):
            return f"The gradients of a backward pass are used by an optimizer step before they are cleared{when}."
        name = f"`{claim.optimizer_class}.step`"
        if claim.gradient == CLEAN:
            return f"Every backward pass in the closure of {name} starts from cleared gradients{when}."
        if claim.gradient == FRESH:
            return f"No gradient that {name} consumes is left over from an earlier step{when}."
        return f"Gradients accumulate over all backward passes before {name} and are not cleared between them{when}."

    def finding(self, invariant: Invariant[Consumed | Used], run: Run, examples: Examples, broken: Ints) -> Finding:
        if isinstance(invariant.claim, Used):
            return Finding(
                "In the golden run an optimizer step used the gradients of each backward pass; in the candidate "
                "those of one are cleared before any step uses them: an optimizer step is missing, or zero_grad is "
                "misplaced.",
                "gradients are used by a step before they are cleared",
                "gradients are cleared before any step",
                deviation=Deviation.LACKING,
            )
        names = listed(variable_names(run, examples, broken), 2)
        if invariant.claim.gradient == CLEAN:
            return Finding(
                f"`{invariant.subject}`: the golden run cleared the gradients before each backward pass of the "
                f"closure; the candidate adds new gradients to the old ones of {names}: zero_grad is missing or "
                "misplaced.",
                "gradients cleared before each backward pass of the closure",
                "gradients of the last evaluation are still there in the next",
                deviation=Deviation.LACKING,
            )
        if invariant.claim.gradient == FRESH:
            return Finding(
                f"`{invariant.subject}`: the golden run always cleared the gradients between two steps; the candidate "
                f"adds new gradients to the old ones of {names}: zero_grad is missing or misplaced.",
                "gradients cleared between one step and the backward passes of the next",
                "gradients of earlier steps are still there when the next step consumes them",
                deviation=Deviation.LACKING,
            )
        return _cleared(invariant.subject, names, run, examples, int(broken[0]))


def _cleared(subject: str, names: str, run: Run, examples: Examples, broken: int) -> Finding:
    """What is said of gradients that a step does not find whole: when they were cleared, and by what."""
    process = run.processes[int(examples.process[broken])]
    variables, gradients = Variables.of(process), Gradients.of(process)
    step = next(item for item in process.steps if item.row == int(examples.row[broken]))
    first = variables.first_name[int(examples.variable[broken])]
    gradient = np.array([int(variables.companion("gradient")[first])])
    begin = np.array([step.begin])
    cleared = gradients.last_clearing(gradient, begin)
    # The change is seen when gradients are looked at again: outside of every `zero_grad` something else made it.
    called = bool(process.inside("zero_grad")[process.row_at(int(cleared[0]))])
    hint = "zero_grad is misplaced" if called else "something else than zero_grad does"
    golden = "gradients accumulate over all backward passes of a step"
    if gradients.additions(gradient, cleared, begin)[0]:
        return Finding(
            f"`{subject}`: the golden run accumulated the gradients of all backward passes of a step; the candidate "
            f"clears those of {names} between the passes: {hint}, and only the last backward pass counts.",
            golden,
            "gradients are cleared between the backward passes of one step",
            deviation=Deviation.TOO_OFTEN,
        )
    return Finding(
        f"`{process.optimizer_class[step.optimizer]}.step`: the golden run used the gradients of all backward passes "
        f"of a step; the candidate clears those of {names} between the last backward pass and the step: "
        f"{hint}.",
        golden,
        "gradients are cleared after the backward passes of a step, before it uses them",
        deviation=Deviation.TOO_OFTEN,
    )


def _subject(process: Process, optimizer: int) -> str:
    return f"{process.optimizer_class[optimizer]}.zero_grad"


def _examples(process: Process, position: int, what: Sort, optimizer_class: str) -> Examples:
    if what == CLEAN:
        rows, variable, holds = process.memo(("clean", optimizer_class), lambda: _closures(process, optimizer_class))
    else:
        table = process.memo("accumulate", lambda: _table(process))
        mine = Labels.of(table.optimizer, process.optimizer_class).isin([optimizer_class])
        lines = np.flatnonzero(table.candidates & mine)
        rows, variable = table.row[lines], table.variable[lines]
        holds = (table.fresh if what == FRESH else table.whole)[lines]
    context = step_context(process, rows)
    own = variable_context(process, variable)
    context.update({name: own[name] for name in ("requires_grad", "shape", "root", "child", "variable")})
    return Examples(holds, np.full(len(rows), position), rows, variable, context)


def _closures(process: Process, optimizer_class: str) -> tuple[Ints, Ints, Bools]:
    """Gradients that a backward pass inside an optimizer's step added to: rows of the steps, parameters, and whether
    each was cleared before.
    """
    variables = Variables.of(process)
    events = process.events
    changes = Gradients.of(process).rows_of_additions
    changes = changes[process.inside("optimizer")[changes] & (process.parent_row[changes] >= 0)]
    steps = [step for step in process.steps if process.optimizer_class[step.optimizer] == optimizer_class]
    if not len(changes) or not steps:
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing, np.empty(0, dtype=bool)
    seq = events["seq"]
    begins = np.array([step.begin for step in steps], dtype=np.int64)
    ends = np.array([step.end for step in steps], dtype=np.int64)
    times = seq[changes].astype(np.int64)
    index = np.searchsorted(begins, times, side="right") - 1
    mine = (index >= 0) & (times < ends[np.maximum(index, 0)])
    changes, index = changes[mine], index[mine]
    gradient = events["subject"][changes].astype(np.int64)
    before = variables.state(gradient, seq[process.parent_row[changes]].astype(np.int64))
    step_rows = np.array([step.row for step in steps], dtype=np.int64)
    return step_rows[index], variables.companion("parameter")[gradient], (before == fmt.ABSENT) | (before == fmt.ZERO)


def _passes(process: Process, position: int) -> Examples:
    """One example for each backward pass that added to gradients of which some were used by a step of their optimizer,
    or cleared; neither is known of what is left in the end.

    A pass is used if any of its gradients is: that of a generator leaves some in the discriminator too, which are
    cleared.
    """
    variables, events = Variables.of(process), process.events
    seq = events["seq"]
    changes = Gradients.of(process).rows_of_additions
    changes = changes[~process.inside("optimizer")[changes] & (process.parent_row[changes] >= 0)]
    gradient, time = events["subject"][changes].astype(np.int64), seq[changes].astype(np.int64)
    lines = variables.step_table
    if not len(changes) or not len(lines.variable):
        return EMPTY
    held = variables.companion("gradient")[variables.first_name[lines.variable]]
    step = first_after(np.sort((held << 32) + lines.column("begin")), gradient, time)
    cleared = Gradients.of(process).next_clearing(gradient, time)
    passes, of = np.unique(process.parent_row[changes], return_inverse=True)
    used, gone = (np.zeros(len(passes), dtype=bool) for _ in range(2))
    np.logical_or.at(used, of, step < cleared)
    np.logical_or.at(gone, of, (cleared < step) & ~_asked(process, time, cleared))
    known = used | gone
    return Examples(
        used[known],
        np.full(int(known.sum()), position),
        passes[known],
        np.zeros(int(known.sum()), dtype=np.int64),
        {"rank": rank_label(process, int(known.sum()))},
    )


def _asked(process: Process, after: Ints, until: Ints) -> Bools:
    """Whether a gradient scaler was asked for a step in an interval: it may have found gradients that overflowed."""
    scaler = process.rows_of_type("scaler")
    asked = scaler[[process.api[row].endswith("GradScaler.step") for row in scaler.tolist()]]
    times = np.sort(process.events["seq"][asked].astype(np.int64))
    return np.asarray(np.searchsorted(times, until) > np.searchsorted(times, after), dtype=bool)


@dataclass(frozen=True)
class _Table:
    """For every parameter at every step: is its gradient fresh, is it whole."""

    row: Ints
    variable: Ints
    optimizer: Ints
    candidates: Bools
    fresh: Bools
    whole: Bools


def _previous_end(process: Process) -> Ints:
    """For every line of the step table the end of the step before: of the same optimizer, or of one whose place it
    takes.
    """
    variables = Variables.of(process)
    lines = variables.step_table
    previous = lines.column("previous_end")
    first = np.flatnonzero(previous == 0)
    labels = Labels.of(lines.column("optimizer"), process.names.optimizers)
    if not len(first) or len(labels.values) == len(np.unique(lines.column("optimizer"))):
        return previous
    place = labels.codes.astype(np.int64) * len(variables.symbols) + variables.first_name[lines.variable]
    keys = np.sort((place << 32) + lines.column("end"))
    before = np.searchsorted(keys, (place[first] << 32) + lines.column("begin")[first]) - 1
    found = keys[np.maximum(before, 0)]
    result = previous.copy()
    result[first] = np.where((before >= 0) & (found >> 32 == place[first]), found & 0xFFFFFFFF, 0)
    return result


def _table(process: Process) -> _Table:
    variables = Variables.of(process)
    lines = variables.step_table
    gradient = (
        variables.companion("gradient")[variables.first_name[lines.variable]] if len(lines.variable) else lines.variable
    )
    begin, previous = lines.column("begin"), _previous_end(process)
    gradients = Gradients.of(process)
    cleared = gradients.last_clearing(gradient, begin)
    since_clear = gradients.additions(gradient, cleared, begin)
    stale = gradients.additions(gradient, cleared, previous)
    in_window = gradients.additions(gradient, previous, begin)
    # A gradient may be zero by itself. Whoever clears it then changes nothing, and nothing of it is left over.
    fresh = (stale == 0) | (variables.state(gradient, previous) == fmt.ZERO)
    # Whole: what was added since the previous step is all still in the sum.
    whole = since_clear >= in_window
    touched = in_window > 0
    return _Table(
        lines.column("row"), lines.variable, lines.column("optimizer"), touched & (gradient > 0), fresh, whole
    )
