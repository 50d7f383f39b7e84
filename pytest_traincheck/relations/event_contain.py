"""EventContain: one event happens within every call of an API."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.optimizer_label import models_in
from pytest_traincheck.relations import vocabulary
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, listed, variable_names
from pytest_traincheck.relations.context import call_context, state_labels, step_context, variable_context
from pytest_traincheck.relations.meaning import Basic, Deviation, Evidence, Excuse, Meaning, Place, Words, place_of_call
from pytest_traincheck.relations.precondition_wording import when_text
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints, Labels, pairs_of
from pytest_traincheck.trace.process import OptimizerStep
from pytest_traincheck.trace.stages import STAGES, Stage
from pytest_traincheck.trace.variables import Variables

Effect = Literal["updates", "received", "received in the closure", "others stay"]
CHANGES: Final = "updates"
RECEIVES: Final = "received"
WITHIN: Final = "received in the closure"
OTHERS: Final = "others stay"
_RULES: Mapping[Effect, str] = {
    CHANGES: "`{within}` changes every parameter it holds that has a gradient",
    RECEIVES: "When `{within}` begins, every parameter it holds has received a gradient",
    WITHIN: "When the closure of `{within}` has gone backward, every parameter it holds has received a gradient",
    OTHERS: "`{within}` leaves the parameters of other models alone",
}

_STAGES: Mapping[Stage, str] = {"init": "init", "train": "training", "eval": "evaluation"}

FEW = 4
"""Elements of a tensor that may all stand still in one step by chance."""
NEGLIGIBLE = 1e-6

NOT_FINITE = fmt.STATE_NAMES[fmt.NONFINITE]

FORWARD: Final = "torch.nn.Module.forward"
BACKWARD: Final = "torch.autograd.backward"


SMALL_RATE = 1e-3
"""Learning rates below this share of the largest one in the run are as good as none."""


@dataclass(frozen=True)
class InStep(Claim):
    """What a step does to parameters, or what is there when it begins."""

    within: str
    change: Effect


@dataclass(frozen=True)
class InForward(Claim):
    """The forward pass of a model, in a stage, contains a call."""

    within: Literal["torch.nn.Module.forward"] = field(default=FORWARD, init=False)
    model: str
    stage: Stage
    call: str


class EventContain:
    """Change in call: a step changes the parameters that have a gradient, and no others; a gradient has arrived
    when the step begins, or behind the last backward pass of its closure.
    Call in call: the forward pass of a model contains the layers that give it its behaviour.
    """

    name = "EventContain"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (InStep, InForward)

    def layer(self, claim: InStep | InForward) -> int:
        return 3

    def meaning(self, rule: Invariant[InStep | InForward]) -> Meaning:
        arrives = isinstance(rule.claim, InStep) and rule.claim.change in (RECEIVES, WITHIN)
        if isinstance(rule.claim, InForward):
            place = place_of_call(rule.subject)
        else:
            place = Place.ARRIVAL if arrives else Place.UPDATE
        return Meaning(
            place,
            general=True,
            basic=Basic.GRADIENTS if arrives else Basic.NONE,
            basic_of=rule.claim.within if arrives else "",
            set_up=isinstance(rule.claim, InForward) and rule.claim.stage == "init",
            excuse=Excuse.ALL_RESULTS,
            # Which parameters an optimizer holds is structure: what gets no gradient is not moved by a step either.
            shown_by=Evidence.NONE if isinstance(rule.claim, InForward) else Evidence.TRAINED,
            words=Words(finds_variables=True),
        )

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            for optimizer in sorted({step.optimizer for step in process.steps}):
                step = f"{process.optimizer_class[optimizer]}.step"
                yield Hypothesis(self.name, step, InStep(step, CHANGES))
                yield Hypothesis(self.name, BACKWARD, InStep(step, RECEIVES))
                if _goes_backward(process, process.optimizer_class[optimizer]):
                    yield Hypothesis(self.name, BACKWARD, InStep(step, WITHIN))
                yield Hypothesis(self.name, step, InStep(step, OTHERS))
            for root, stage, api in sorted(_contained(process)):
                if stage == "eval" and api in vocabulary.ATTENTION:
                    continue  # In evaluation attention may take its fast path, which is one call for all.
                claim = InForward(root, stage, api)
                yield Hypothesis(self.name, api, claim, Kind.BEHAVIOUR, Scope.PINNED)

    def examples(self, claim: InStep | InForward, run: Run) -> Examples:
        processes = enumerate(run.processes)
        if isinstance(claim, InForward):
            return Examples.concatenate([_call_in_call(process, position, claim) for position, process in processes])
        return Examples.concatenate([_change_in_step(process, position, claim) for position, process in processes])

    def sentence(self, claim: InStep | InForward, subject: str, when: str) -> str:
        if isinstance(claim, InForward):
            stage = _STAGES[claim.stage]
            return f"Every forward pass of `{claim.model}` in {stage} contains a call of `{claim.call}`{when}."
        return f"{_RULES[claim.change].format(within=claim.within)}{when}."

    def finding(self, invariant: Invariant[InStep | InForward], run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        if isinstance(claim, InForward):
            return Finding(
                f"Every forward pass of `{claim.model}` in {_STAGES[claim.stage]} called `{claim.call}` in the golden "
                "run; in the candidate some do not.",
                f"contains {claim.call}",
                f"no call of {claim.call}",
                deviation=Deviation.LACKING,
            )
        names = listed(variable_names(run, examples, broken))
        within = f"`{claim.within}`{_which(claim, run, examples, broken)}"
        # The golden run may be otherwise elsewhere, as where parts of a model are dropped by chance.
        when = f"{text}," if (text := when_text(invariant.when)) else ""
        if claim.change == CHANGES:
            return Finding(
                f"{within} changed every parameter it holds{when} in the golden run; in the candidate it leaves "
                f"{names} unchanged.",
                "every parameter changes in each step",
                f"unchanged: {names}",
                deviation=Deviation.LACKING,
            )
        if claim.change in (RECEIVES, WITHIN):
            state = examples.observed[int(broken[0])] if examples.observed is not None else "absent"
            moment = "when the step began" if claim.change == RECEIVES else "when its closure had gone backward"
            return Finding(
                f"Every parameter of {within}{when} had a gradient {moment} in the golden run; in the candidate the "
                f"gradient of {names} is {state}.",
                "a nonzero gradient for every parameter",
                f"gradient {state}: {names}",
                deviation=Deviation.NOT_FINITE if state == NOT_FINITE else Deviation.DIFFERENT,
            )
        return Finding(
            f"{within} changed only its own parameters in the golden run; in the candidate it also changes {names}.",
            "other parameters stay as they are during the step",
            f"changed as well: {names}",
            deviation=Deviation.EXTRA,
        )


def _which(claim: InStep, run: Run, examples: Examples, broken: Ints) -> str:
    """Which optimizer steps, in brackets, where several of one class do: by the models whose parameters it holds, or by
    the line that made it.
    """
    first = int(broken[0])
    process = run.processes[int(examples.process[first])]
    mine = broken[examples.process[broken] == examples.process[first]]
    stepping = np.unique(process.events["opt"][examples.row[mine]]).tolist()
    alike = {
        step.optimizer for step in process.steps if f"{process.optimizer_class[step.optimizer]}.step" == claim.within
    }
    if len(stepping) > 1 or len(alike) == 1:
        return ""
    label = process.names.optimizers[stepping[0]]
    if models_in(label):
        return f" (`{label}`)"
    made = process.rows_of_type("construct")
    made = made[process.events["opt"][made] == stepping[0]]
    source = process.source(int(made[-1])) if len(made) else ""
    return f" (of the optimizer made at {source})" if source else ""


def _change_in_step(process: Process, position: int, claim: InStep) -> Examples:
    variables = Variables.of(process)
    if claim.change == OTHERS:
        return _others(process, position, claim)
    table = variables.step_table
    mine = Labels.of(table.column("optimizer"), process.optimizer_class).isin([claim.within.removesuffix(".step")])
    rows, variable = table.column("row")[mine], table.variable[mine]
    begin, end = table.column("begin")[mine], table.column("end")[mine]
    if not len(rows):
        return EMPTY
    gradient = variables.companion("gradient")[variables.first_name[variable]]
    moments = _moments(process)
    moment = np.searchsorted(moments.row, rows)
    used = moments.used[moment]
    state = np.where(gradient > 0, variables.state(gradient, used), fmt.ABSENT)
    observed, unsure = None, None
    if claim.change == CHANGES:
        # A gradient of rounding errors (a bias before a normalisation) changes its parameter or not, as chance has it.
        # Without a gradient nothing is claimed, and at the ends of a schedule, where the learning rate is 0 or next to
        # it, an update may be too small to change a number.
        rate = _learning_rates(process, table.column("optimizer")[mine], table.group[mine], begin)
        usable = np.isnan(rate) | (rate > SMALL_RATE * np.nanmax(rate, initial=0.0))
        kept = (state == fmt.NONZERO) & ~_negligible(process, gradient, rows, used) & usable
        rows, variable, state, begin, end = rows[kept], variable[kept], state[kept], begin[kept], end[kept]
        holds = variables.changed(variables.first_name[variable], begin - 1, end)
        told = ~_by_chance(process, rows, variable, holds)
        rows, variable, holds, state = rows[told], variable[told], holds[told], state[told]
        context = step_context(process, rows)
    else:
        # An optimizer that goes backward more than once tries steps, and may throw away what is not finite.
        tried = (state == fmt.NONFINITE) & (moments.passes[moment] > 1)
        holds = (state == fmt.NONZERO) | tried
        asked = moments.passes[moment] > 0 if claim.change == WITHIN else moments.at_begin[moment]
        # A gradient that is zero once is data; one that is zero in every step of a run is structure. Which it is shows
        # only when there are enough steps.
        sometimes = np.isin(variable, variable[state != fmt.ZERO])
        kept = asked & ~((state == fmt.ZERO) & sometimes)
        rows, variable, holds, state = rows[kept], variable[kept], holds[kept], state[kept]
        context = step_context(process, rows)
        observed, unsure = state_labels(state), state == fmt.ZERO
    own = variable_context(process, variable)
    context.update({name: own[name] for name in ("requires_grad", "shape", "root", "child", "variable")})
    holds, where = np.asarray(holds, dtype=bool), np.full(len(rows), position)
    return Examples(holds, where, rows, variable, context, observed, unsure=unsure)


def _by_chance(process: Process, rows: Ints, variable: Ints, holds: Bools) -> Bools:
    """Where a tensor of few elements stands still in a single step that moves others, after one that changed it and, if
    there is one, before one that does: a moment that passes through zero moves a number by less than its last digit.
    """
    shapes = [symbol.get("shape") or [] for symbol in Variables.of(process).symbols]
    few = np.array([math.prod(shape) <= FEW for shape in shapes], dtype=bool)
    order = np.lexsort((rows, variable))
    own, held = variable[order], holds[order]
    same = own[1:] == own[:-1]
    before = np.concatenate([[False], same & held[:-1]])
    after = np.concatenate([~same | held[1:], [True]])[: len(own)]
    found = np.zeros(len(rows), dtype=bool)
    found[order] = ~held & before[: len(own)] & after & few[own]
    return found & np.isin(rows, rows[holds])


def _others(process: Process, position: int, claim: InStep) -> Examples:
    variables = Variables.of(process)
    everything = variables.ids("parameter")
    rows, subjects, holds = [], [], []
    wanted = claim.within.removesuffix(".step")
    by_members: dict[tuple[int, int], list[OptimizerStep]] = {}
    for step in process.steps:
        if process.optimizer_class[step.optimizer] == wanted:
            members = variables.membership(step.optimizer, step.begin)
            by_members.setdefault((step.optimizer, id(members.variables)), []).append(step)
    for steps in by_members.values():
        own = variables.first_name[variables.membership(steps[0].optimizer, steps[0].begin).variables]
        others = everything[~np.isin(everything, own)]
        if len(others):
            step_rows = np.array([step.row for step in steps], dtype=np.int64)
            row, variable = np.repeat(step_rows, len(others)), np.tile(others, len(steps))
            begin = process.events["seq"][row].astype(np.int64)
            end = process.events["end"][row].astype(np.int64)
            rows.append(row)
            subjects.append(variable)
            holds.append(~_changed_by(process, row, variable, begin, end))
    if not rows:
        return EMPTY
    row, variable = np.concatenate(rows), np.concatenate(subjects)
    context = step_context(process, row)
    own_context = variable_context(process, variable)
    context.update({name: own_context[name] for name in ("root", "child", "variable")})
    return Examples(np.concatenate(holds), np.full(len(row), position), row, variable, context)


def _changed_by(process: Process, step_row: Ints, variable: Ints, begin: Ints, end: Ints) -> Any:
    """Changes seen within the step and recorded as its own; what was merely noticed then carries another parent."""
    variables = Variables.of(process)
    rows = variables.last(variable, end)
    events = process.events
    recent = (rows >= 0) & (events["seq"][np.maximum(rows, 0)] >= begin)
    parent = process.parent_row[np.maximum(rows, 0)]
    return recent & (parent == step_row) & (events["old"][np.maximum(rows, 0)] != fmt.UNSEEN)


def _negligible(process: Process, gradient: Ints, step_row: Ints, begin: Ints) -> Bools:
    """Gradients whose norm is less than a millionth of the largest of the same step."""
    rows = Variables.of(process).last(gradient, begin)
    norm = np.where((rows >= 0) & (gradient > 0), process.events["value"][np.maximum(rows, 0)], np.nan)
    _, step = np.unique(step_row, return_inverse=True)
    largest = np.zeros(int(step.max()) + 1 if len(step) else 0)
    np.maximum.at(largest, step, np.nan_to_num(norm, posinf=0.0))
    return np.asarray((norm > 0) & (norm < NEGLIGIBLE * largest[step]))


@dataclass(frozen=True)
class _Moments:
    """When the gradients are there that each step uses, by the rows of the steps in order."""

    row: Ints
    used: Ints
    """Where the step begins; with a closure, where its last backward pass ends."""
    passes: Ints
    """How many backward passes lie inside the step."""
    at_begin: Bools
    """Whether the gradients are there when the step begins, as far as can be seen. A closure without a backward pass
    may have skipped its batch, or have set the gradients itself.
    """


def _moments(process: Process) -> _Moments:
    def compute() -> _Moments:
        row = np.array([step.row for step in process.steps], dtype=np.int64)
        used = np.array([step.begin for step in process.steps], dtype=np.int64)
        ends = np.array([step.end for step in process.steps], dtype=np.int64)
        passes = np.zeros(len(row), dtype=np.int64)
        inside = process.rows_of_type("autograd")
        inside = inside[process.inside("optimizer")[inside]]
        seq = process.events["seq"][inside].astype(np.int64)
        owner = np.searchsorted(used, seq) - 1
        returned = (owner >= 0) & (seq < ends[owner]) if len(ends) else np.zeros(len(inside), dtype=bool)
        inside, owner = inside[returned], owner[returned]
        computes = _given_closure(process, row)
        computes[owner] = True
        backward = process.api.isin([BACKWARD])[inside]
        np.add.at(passes, owner[backward], 1)
        np.maximum.at(used, owner[backward], process.events["end"][inside[backward]].astype(np.int64))
        return _Moments(row, used, passes, ~computes)

    return process.memo("moments of gradients", compute)


def _given_closure(process: Process, rows: Ints) -> Bools:
    arguments = process.events["args"][rows]
    symbols = process.raw.symbols["args"]
    given = [number for number in np.unique(arguments).tolist() if (symbols[number].get("values") or {}).get("closure")]
    return np.isin(arguments, given)


def _goes_backward(process: Process, optimizer_class: str) -> bool:
    """Whether any step of the class goes backward itself, in a closure."""
    passes = _moments(process).passes.tolist()
    steps = zip(process.steps, passes, strict=True)
    return any(count and process.optimizer_class[step.optimizer] == optimizer_class for step, count in steps)


def _learning_rates(process: Process, optimizer: Ints, group: Ints, seq: Ints) -> Any:
    variables = Variables.of(process)
    table = {
        (symbol.get("opt", 0), symbol.get("group", 0) or 0): number
        for number, symbol in enumerate(variables.symbols)
        if symbol.get("kind") == "lr"
    }
    pairs, inverse = np.unique((optimizer << 16) + group, return_inverse=True)
    ids = np.array([table.get((pair >> 16, pair & 0xFFFF), 0) for pair in pairs.tolist()], dtype=np.int64)[inverse]
    rows = variables.last(ids, seq)
    return np.where(rows >= 0, process.events["value"][np.maximum(rows, 0)], np.nan)


def _layer_rows(process: Process) -> Ints:
    mask = process.is_call & vocabulary.calls_of(process, vocabulary.LAYER_FUNCTIONS)
    return np.flatnonzero(mask & ~process.inside("autograd"))


def _entry_of(process: Process, rows: Ints) -> Ints:
    """Position in `forward_rows` of the forward pass that contains each call; -1 if none does."""
    entries = process.forward_rows
    if not len(entries):
        return np.full(len(rows), -1)
    seq = process.events["seq"]
    index = np.searchsorted(seq[entries], seq[rows], side="right") - 1
    ends = process.events["end"][entries]
    inside = (index >= 0) & (seq[rows] < ends[np.maximum(index, 0)])
    return np.where(inside, index, -1)


def _roots_of_entries(process: Process) -> Labels:
    return call_context(process, process.forward_rows)["root"]


def _contained(process: Process) -> set[tuple[str, Stage, str]]:
    rows = _layer_rows(process)
    entries = _entry_of(process, rows)
    roots = _roots_of_entries(process) if len(process.forward_rows) else None
    if roots is None:
        return set()
    inside = entries >= 0
    rows, entries = rows[inside], entries[inside]
    found: set[tuple[str, Stage, str]] = set()
    for api, mine in process.api.groups(rows).items():
        own = np.unique(entries[np.searchsorted(rows, mine)])
        owners, in_stage, _ = pairs_of(roots.codes[own], process.stage[process.forward_rows[own]])
        pairs = zip(owners.tolist(), in_stage.tolist(), strict=True)
        found.update((roots.values[root], STAGES[stage], api) for root, stage in pairs if roots.values[root])
    return found


def _call_in_call(process: Process, position: int, claim: InForward) -> Examples:
    entries = process.forward_rows
    if not len(entries) or vocabulary.is_compiled(process):
        return EMPTY
    stage = process.stage_labels.take(entries).isin([claim.stage])
    wanted = stage & _roots_of_entries(process).isin([claim.model])
    rows = _layer_rows(process)
    rows = rows[process.api.isin([claim.call])[rows]]
    having = np.unique(_entry_of(process, rows))
    chosen = np.flatnonzero(wanted)
    anchors = entries[chosen]
    context = call_context(process, anchors)
    return Examples(
        np.isin(chosen, having),
        np.full(len(anchors), position),
        anchors,
        np.zeros(len(anchors), dtype=np.int64),
        {name: context[name] for name in ("training", "grad_mode", "rank")},
    )
