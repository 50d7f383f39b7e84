"""Covered: which optimizer holds which parameters, and which parameters are trainable at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, all_of, listed, variable_names
from pytest_traincheck.relations.claims import Items, Natural
from pytest_traincheck.relations.context import (
    FIRST_STEP,
    LAST_STEP,
    TIME,
    module_roots,
    rank_label,
    requires_grad,
    trained_roots,
    variable_context,
)
from pytest_traincheck.relations.later_optimizers import later
from pytest_traincheck.relations.meaning import Evidence, Meaning, Place, Words
from pytest_traincheck.relations.thawed import since, trained_in_beginning
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Ints, Labels
from pytest_traincheck.trace.stages import TRAIN
from pytest_traincheck.trace.variables import Variables

Coverage = Literal["one group", "held trainable", "held known", "frozen", "trainable"]
"""Every trainable parameter is in exactly one group; what optimizers hold is trainable; what they hold belongs to a
model; parameters are frozen, or are trainable.
"""
ONE_OPTIMIZER: Final = "one group"
TRAINABLE: Final = "held trainable"
KNOWN: Final = "held known"
FROZEN: Final = "frozen"
TRAINED: Final = "trainable"
_OF_OPTIMIZERS: tuple[Coverage, ...] = (ONE_OPTIMIZER, TRAINABLE, KNOWN)
_OF_PARAMETERS: tuple[Coverage, ...] = (FROZEN, TRAINED)

SUBJECT = "torch.optim.Optimizer.param_groups"


@dataclass(frozen=True)
class HeldAs(Claim):
    """Parameters and the groups of optimizers are to each other as one of these rules says."""

    rule: Coverage


@dataclass(frozen=True)
class HoldsOnly(Claim):
    """An optimizer, by its label, holds parameters of these models and of no others."""

    rule: Literal["models"] = field(default="models", init=False)
    optimizer: str
    models: Annotated[tuple[str, ...], Items(1)]


@dataclass(frozen=True)
class HoldsLoose(Claim):
    """An optimizer, by its label, holds so many parameters of no model."""

    rule: Literal["loose"] = field(default="loose", init=False)
    optimizer: str
    parameters: Natural


class Covered:
    """The parameters of the models that are trained, against the groups of the optimizers.

    Class covered: parameters left out of every optimizer, held by two, held but frozen, held by the optimizer of
    another model, left
    over from before the model was rebuilt, frozen or unfrozen by mistake.
    """

    name = "Covered"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (HeldAs, HoldsOnly, HoldsLoose)

    def layer(self, claim: HeldAs | HoldsOnly | HoldsLoose) -> int:
        return 1

    def meaning(self, rule: Invariant[HeldAs | HoldsOnly | HoldsLoose]) -> Meaning:
        held = ("param_groups", "add_param_group") if rule.subject == SUBJECT else ()
        names = ("requires_grad", "requires_grad_", *held)
        # What is held or not held without any effect is another way to write the same; what is frozen is a choice.
        chosen = isinstance(rule.claim, HeldAs) and rule.claim.rule in _OF_PARAMETERS
        shown_by = Evidence.NONE if chosen else Evidence.TRAINED
        return Meaning(Place.HELD, shown_by=shown_by, words=Words(names=names, finds_variables=True))

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for what in _OF_OPTIMIZERS:
            yield Hypothesis(self.name, SUBJECT, HeldAs(what))
        for process in run.processes:
            for label, roots in sorted(_roots_by_optimizer(process).items()):
                if roots:
                    only = HoldsOnly(label, tuple(sorted(roots)))
                    yield Hypothesis(self.name, SUBJECT, only, Kind.BEHAVIOUR, Scope.PINNED)
            for label, number in sorted(_sizes(process)):
                loose = HoldsLoose(label, number)
                yield Hypothesis(self.name, SUBJECT, loose, Kind.CONFIG, Scope.PINNED)
            if len(_parameters(process)):
                for what in _OF_PARAMETERS:
                    yield Hypothesis(
                        self.name, "torch.nn.Parameter.requires_grad", HeldAs(what), Kind.CONFIG, Scope.PINNED
                    )

    def examples(self, claim: HeldAs | HoldsOnly | HoldsLoose, run: Run) -> Examples:
        return Examples.concatenate(
            [
                _examples(process, position, claim, last=last)
                for position, process in enumerate(run.processes)
                if process.steps
                # Parameters may be unfrozen on the way.
                for last in ((False, True) if len(process.steps) > 1 else (False,))
            ]
        )

    def sentence(self, claim: HeldAs | HoldsOnly | HoldsLoose, subject: str, when: str) -> str:
        if isinstance(claim, HoldsOnly):
            return f"`{claim.optimizer}` holds parameters of {listed(claim.models, 4)} only."
        if isinstance(claim, HoldsLoose):
            return f"`{claim.optimizer}` holds {claim.parameters} parameters that belong to no model{when}."
        text: Mapping[Coverage, str] = {
            ONE_OPTIMIZER: "Every trainable parameter is in exactly one optimizer group",
            TRAINABLE: "Every parameter that an optimizer holds is trainable",
            KNOWN: "Every parameter that an optimizer holds belongs to a model",
            FROZEN: "Parameters are frozen",
            TRAINED: "Parameters are trainable",
        }
        return f"{text[claim.rule]}{when}."

    def finding(
        self, invariant: Invariant[HeldAs | HoldsOnly | HoldsLoose], run: Run, examples: Examples, broken: Ints
    ) -> Finding:
        claim = invariant.claim
        rule = claim.rule
        concerned = variable_names(run, examples, broken)
        names, which = listed(concerned), all_of(concerned)
        if rule == ONE_OPTIMIZER:
            missing = examples.observed is not None and examples.observed[int(broken[0])] == "none"
            candidate = "in no optimizer" if missing else "in more than one optimizer group"
            return Finding(
                f"Every trainable parameter was in exactly one optimizer in the golden run; in the candidate {names} "
                f"{'is' if len(broken) == 1 else 'are'} {candidate}.",
                "every trainable parameter in exactly one optimizer group",
                f"{names} {candidate}",
                value=which,
            )
        if rule == TRAINABLE:
            return Finding(
                "Every parameter of an optimizer was trainable in the golden run; in the candidate the optimizer holds "
                f"frozen parameters: {names}.",
                "optimizers hold trainable parameters only",
                f"an optimizer holds {names} with requires_grad=False",
                value=which,
            )
        if rule == KNOWN:
            return Finding(
                "Every parameter of an optimizer belonged to a model in the golden run; in the candidate the optimizer "
                f"holds parameters that no model has any more: {names}.",
                "optimizers hold parameters of models only",
                f"{names} belong to no model",
            )
        if isinstance(claim, HoldsLoose):
            seen = examples.observed[int(broken[0])] if examples.observed is not None else "?"
            held = claim.parameters
            return Finding(
                f"`{claim.optimizer}` held {held} parameters that belong to no model in the golden run and "
                f"holds {seen} in the candidate.",
                f"{held} parameters",
                f"{seen} parameters",
                value=seen,
            )
        if isinstance(claim, HoldsOnly):
            return Finding(
                f"`{claim.optimizer}` held parameters of {listed(claim.models, 4)} "
                f"only in the golden run; in the candidate it also holds {names}.",
                f"parameters of {listed(claim.models, 4)} only",
                f"also holds {names}",
                value=which,
            )
        was, now = ("frozen", "trainable") if rule == FROZEN else ("trainable", "frozen")
        return Finding(
            f"{names} {'was' if len(broken) == 1 else 'were'} {was} in the golden run and "
            f"{'is' if len(broken) == 1 else 'are'} {now} in the candidate.",
            f"{was} (requires_grad={rule != FROZEN})",
            f"{now} (requires_grad={rule == FROZEN})",
            value=which,
        )


def _examples(process: Process, position: int, claim: HeldAs | HoldsOnly | HoldsLoose, *, last: bool) -> Examples:
    variables = Variables.of(process)
    step = process.steps[-1 if last else 0]
    anchor = step.row if last else construction_row(process, step.optimizer)
    if isinstance(claim, HeldAs) and claim.rule in (ONE_OPTIMIZER, FROZEN, TRAINED):
        rows = _parameters(process)
        rows = rows[_was_there(process, rows, step.end)]
        trainable = _trainable(process, rows, step.end)
        if claim.rule == ONE_OPTIMIZER:
            rows = rows[trainable]
            counts = memberships(process, step.begin)[rows]
            holds = counts == 1
            observed = Labels.of(np.minimum(counts, 2), ("none", "one", "several"))
        else:
            holds = ~trainable | _thawed(process, rows, step.begin) if claim.rule == FROZEN else trainable
            observed = Labels.flags(trainable, "trainable", "frozen")
        return _make(process, position, anchor, rows, holds, observed, last=last)
    held, optimizer = _held(process, step.begin)
    if isinstance(claim, HoldsLoose):
        loose = optimizer[variables.root[held] == 0]
        return _number_held(process, position, claim, loose, anchor, last=last)
    if isinstance(claim, HeldAs):
        holds = _trainable(process, held, step.end) if claim.rule == TRAINABLE else variables.root[held] > 0
    else:
        mine = np.array([process.names.optimizers[int(number)] == claim.optimizer for number in optimizer], dtype=bool)
        held = held[mine]
        models = set(claim.models)
        holds = np.array(
            [_root(process, int(number)) in models or not _root(process, int(number)) for number in held], dtype=bool
        )
    return _make(process, position, anchor, held, holds, None, last=last)


def _number_held(
    process: Process, position: int, claim: HoldsLoose, optimizer: Ints, anchor: int, *, last: bool
) -> Examples:
    """One example for each time: the only rule that sees parameters which belong to no model."""
    labels = Labels.of(optimizer, process.names.optimizers)
    at_work = np.isin(optimizer, _at_work(process, int(process.events["seq"][anchor])))
    number = int((labels.isin([claim.optimizer]) & at_work).sum())
    if not number:
        return EMPTY
    return Examples(
        np.array([number == claim.parameters]),
        np.array([position]),
        np.array([anchor]),
        np.zeros(1, dtype=np.int64),
        {TIME: Labels.constant(LAST_STEP if last else FIRST_STEP, 1), "rank": rank_label(process, 1)},
        Labels.constant(str(number), 1),
    )


def _sizes(process: Process) -> set[tuple[str, int]]:
    """Optimizers and how many parameters of no model they hold, at the first step and at the last."""
    found: set[tuple[str, int]] = set()
    for step in process.steps[:1] + process.steps[-1:]:
        held, owners = _held(process, step.begin)
        owners = owners[Variables.of(process).root[held] == 0]
        for label, rows in Labels.of(owners, process.names.optimizers).groups(np.arange(len(owners))).items():
            found.add((label, len(rows)))
    return found


def _make(
    process: Process, position: int, anchor: int, rows: Ints, holds: Any, observed: Labels | None, *, last: bool
) -> Examples:
    context = {
        TIME: Labels.constant(LAST_STEP if last else FIRST_STEP, len(rows)),
        "rank": rank_label(process, len(rows)),
    }
    context.update(
        {name: column for name, column in variable_context(process, rows).items() if name != "requires_grad"}
    )
    return Examples(
        np.asarray(holds, dtype=bool),
        np.full(len(rows), position),
        _became(process, rows, anchor) if last else np.full(len(rows), anchor),
        rows,
        context,
        observed,
    )


def _became(process: Process, rows: Ints, last: int) -> Ints:
    """The step in which each parameter became what it is in the last one, of steps that golden's runs never came to;
    that it is so is no news of the last.
    """
    anchors = np.array([step.row for step in process.steps], dtype=np.int64)
    ends = np.array([step.end for step in process.steps], dtype=np.int64)
    judged = process.judged(anchors)
    anchors, ends = anchors[judged], ends[judged]
    if process.raw.stretch is None or not len(anchors) or not len(rows):
        return np.full(len(rows), last)
    times = np.maximum(since(process, rows, int(ends[-1])), _held_since(process)[rows])
    times = np.maximum(times, _trained_since(process)[rows])
    return anchors[np.minimum(np.searchsorted(ends, times, side="right"), len(anchors) - 1)]


def _held_since(process: Process) -> Ints:
    """When an optimizer last took each variable, or let go of it; 0 where none ever held it."""

    def compute() -> Ints:
        variables = Variables.of(process)
        found = np.zeros(len(variables.symbols), dtype=np.int64)
        for optimizer in range(1, len(process.optimizer_class)):
            before = np.empty(0, dtype=np.int64)
            for when in variables.records(optimizer):
                held = variables.membership(optimizer, when).variables
                if held is not before:
                    changed = np.setxor1d(held, before)
                    found[changed] = np.maximum(found[changed], when)
                    before = held
        return found

    return process.memo("held since", compute)


def _trained_since(process: Process) -> Ints:
    """When the model of each variable was first called in training; 0 where it never was. A copy may lie there for long
    until it is used.
    """

    def compute() -> Ints:
        entries = process.entry_rows[process.stage[process.entry_rows] == TRAIN]
        roots, seq = module_roots(process)[process.events["mod"][entries]], process.events["seq"][entries]
        first = np.zeros(len(process.names.roots), dtype=np.int64)
        for root in np.unique(roots).tolist():
            first[root] = int(seq[roots == root].min())
        return np.asarray(first[Variables.of(process).root])

    return process.memo("trained since", compute)


def _thawed(process: Process, rows: Ints, seq: int) -> Any:
    """Which parameters were set free on purpose, in steps that golden's runs never came to: they were not trained in
    the beginning, for they were frozen or no optimizer held them, and now one does. To set free what no optimizer takes
    is another rule's.
    """
    stretch, names = process.raw.stretch, process.names.variables
    if stretch is None or seq <= stretch.head_end:
        return np.zeros(len(rows), dtype=bool)
    before = trained_in_beginning(process)
    new = np.array([names[number] not in before for number in rows.tolist()], dtype=bool)
    return new & (memberships(process, seq)[rows] == 1)


def construction_row(process: Process, optimizer: int) -> int:
    """The call that made the optimizer, or its first step if that was not seen."""
    made = process.rows_of_type("construct")
    made = made[process.events["opt"][made] == optimizer]
    if len(made):
        return int(made[0])
    return next((step.row for step in process.steps if step.optimizer == optimizer), process.steps[0].row)


def _root(process: Process, variable: int) -> str:
    return process.names.roots[int(Variables.of(process).root[variable])]


def _parameters(process: Process) -> Ints:
    """Parameters of the models that are called in training, and those that receive gradients wherever they live (a
    layer that a model keeps in a plain list is a model of its own), each tensor once.
    """

    def compute() -> Ints:
        variables = Variables.of(process)
        rows = variables.ids("parameter")
        gradient = variables.companion("gradient")[rows]
        events = process.events
        arrived = np.unique(events["subject"][(events["kind"] == fmt.CHANGE) & (events["new"] == fmt.NONZERO)])
        trained = np.isin(variables.root[rows], sorted(trained_roots(process)))
        return rows[trained | ((gradient > 0) & np.isin(gradient, arrived))]

    return process.memo("trained models' parameters", compute)


def _was_there(process: Process, rows: Ints, seq: int) -> Any:
    """Which parameters had been seen by a time; what takes the place of another one is seen later. Of one whose values
    cannot be read it is seen all the same whether it is trainable.
    """
    variables = Variables.of(process)
    flag = variables.companion("requires_grad")[rows]
    return (np.minimum(variables.first_seen(rows), variables.first_seen(flag)) <= seq) | (flag == 0)


def _trainable(process: Process, rows: Ints, seq: int) -> Any:
    """requires_grad at the end of a step, when every freeze or unfreeze before it has happened, or at some time in the
    iteration: a critic that is frozen while its generator learns is trained all the same.
    """
    variables = Variables.of(process)
    flag = variables.companion("requires_grad")[rows]
    until = np.full(len(rows), seq)
    state = variables.state(flag, until)
    at_end = np.where((flag > 0) & (state >= fmt.FALSE), state == fmt.TRUE, requires_grad(process)[rows])
    earlier = process.step_ends[process.step_ends < seq]
    if len(earlier) and process.step_ends[-1] <= seq and len(earlier) == len(process.step_ends):
        earlier = earlier[:-1]
    if not len(earlier):
        return at_end
    return at_end | ((flag > 0) & variables.changed(flag, np.full(len(rows), int(earlier[-1])), until))


def _held(process: Process, seq: int) -> tuple[Ints, Ints]:
    """Variables in the groups of every optimizer that steps, with the optimizer of each.

    An optimizer that was made but never steps holds what no other holds: that it does not step is said elsewhere. So
    does one that takes over in steps which golden's runs never came to.
    """
    variables = Variables.of(process)
    stepping = sorted({step.optimizer for step in process.steps} - later(process).optimizers)
    idle = [number for number in range(1, len(process.optimizer_class)) if number not in stepping]
    held, owners = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    known: dict[str, list[Ints]] = {}
    for optimizer in stepping + idle:
        if optimizer in idle and variables.recorded(optimizer) > seq:
            continue  # It is made later.
        members = variables.membership(optimizer, seq).variables
        # Of optimizers that take each other's place both hold what has stayed.
        others = known.setdefault(process.names.optimizers[optimizer], []) if optimizer in stepping else held
        members = members[~np.isin(members, np.concatenate([held[0], *others]))]
        others.append(members)
        if optimizer in stepping:
            held.append(members)
        owners.append(np.full(len(members), optimizer))
    return np.concatenate(held), np.concatenate(owners)


def _at_work(process: Process, seq: int) -> list[int]:
    """The optimizers that step; of those that take each other's place, the one whose turn it is at a time."""
    begins: dict[int, int] = {}
    for step in process.steps:
        begins.setdefault(step.optimizer, step.begin)
    current: dict[str, int] = {}
    for optimizer, begin in sorted(begins.items(), key=lambda item: item[1]):
        label = process.names.optimizers[optimizer]
        if label not in current or begin <= seq:
            current[label] = optimizer
    return sorted(current.values())


def memberships(process: Process, seq: int) -> Ints:
    """How many groups hold each variable, under whichever of its names."""
    variables = Variables.of(process)
    held, _ = _held(process, seq)
    counts = np.bincount(variables.first_name[held], minlength=len(variables.symbols))
    return counts[variables.first_name]


_NOTHING = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def _roots_by_optimizer(process: Process) -> dict[str, set[str]]:
    held, owners = _held(process, process.steps[0].begin) if process.steps else _NOTHING
    found: dict[str, set[str]] = {}
    for variable, owner in zip(held.tolist(), owners.tolist(), strict=True):
        root = _root(process, variable)
        if root:
            found.setdefault(process.names.optimizers[owner], set()).add(root)
    return found
