"""Steady and Moves: whether a tracked variable changes from step to step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, listed, variable_names
from pytest_traincheck.relations.claims import Natural
from pytest_traincheck.relations.context import call_context, rank_label, trained_roots, variable_context
from pytest_traincheck.relations.meaning import Deviation, Evidence, Meaning, Place, Words
from pytest_traincheck.relations.sources import sources_of
from pytest_traincheck.relations.vocabulary import ESTIMATES
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints, Labels, among
from pytest_traincheck.trace.stages import EVAL
from pytest_traincheck.trace.variables import Variables

_COPYING = Words(names=("update_parameters", "lerp", "copy_", "mul_"), parts=("ema",))
"""How code averages and copies weights."""

SUBJECTS: Mapping[Literal["parameter", "buffer"], str] = {
    "parameter": "torch.nn.Parameter",
    "buffer": "torch.nn.Buffer",
}


@dataclass(frozen=True)
class ParameterMoves(Claim):
    """Parameters that no optimizer holds change from step to step, or do not."""

    kind: Literal["parameter"] = field(default="parameter", init=False)
    moves: bool
    per: Literal["step"] = field(default="step", init=False)


@dataclass(frozen=True)
class BufferMoves(Claim):
    """Buffers change from step to step or in forward passes, or do not."""

    kind: Literal["buffer"] = field(default="buffer", init=False)
    moves: bool
    per: Literal["step", "forward"]


@dataclass(frozen=True)
class ChangesOutside(Claim):
    """Parameters of a model that no optimizer holds change so often outside training."""

    kind: Literal["parameter"] = field(default="parameter", init=False)
    root: str
    times: Natural
    per: Literal["run"] = field(default="run", init=False)


class Moves:
    """A parameter that no optimizer holds moves in every training step (the averaged copy of an EMA) or never
    (frozen weights); a
    buffer moves in every forward pass of training and never in evaluation (BatchNorm statistics). What an optimizer
    holds
    is the business of `EventContain`.
    """

    name = "Moves"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (ParameterMoves, BufferMoves, ChangesOutside)

    def layer(self, claim: ParameterMoves | BufferMoves | ChangesOutside) -> int:
        return 4

    def meaning(self, rule: Invariant[ParameterMoves | BufferMoves | ChangesOutside]) -> Meaning:
        if rule.claim.kind == "buffer":
            # That buffers move in evaluation, where they should not, may show in no step.
            shown_by = Evidence.COUNTED if rule.claim.per == "step" or rule.claim.moves else Evidence.NONE
            # Of a copy that is not updated any more, its parameters say more.
            order = int(rule.claim.moves and rule.claim.per == "step")
            return Meaning(Place.STATISTICS, order, shown_by=shown_by, words=_COPYING)
        if isinstance(rule.claim, ChangesOutside):
            return Meaning(Place.COPY, per_run=True, words=_COPYING)
        return Meaning(Place.COPY, shown_by=Evidence.COPIED, words=_COPYING)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            variables = Variables.of(process)
            if len(variables.ids("parameter")):
                for moves in (True, False):
                    yield Hypothesis(self.name, SUBJECTS["parameter"], ParameterMoves(moves))
            for root, count in sorted(_exchanges(process).items()):
                yield Hypothesis(self.name, SUBJECTS["parameter"], ChangesOutside(root, count), scope=Scope.PINNED)
            if len(variables.ids("buffer")):
                for moves in (True, False):
                    yield Hypothesis(self.name, SUBJECTS["buffer"], BufferMoves(moves, "step"))
                    yield Hypothesis(self.name, SUBJECTS["buffer"], BufferMoves(moves, "forward"))

    def examples(self, claim: ParameterMoves | BufferMoves | ChangesOutside, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: ParameterMoves | BufferMoves | ChangesOutside, subject: str, when: str) -> str:
        if isinstance(claim, ChangesOutside):
            return (
                f"Parameters of `{claim.root}` that no optimizer holds are seen to change {_times(claim.times)} "
                f"outside training{when}."
            )
        plural = {"parameter": "Parameters that no optimizer holds", "buffer": "Buffers"}[claim.kind]
        verb = "change" if claim.moves else "do not change"
        place = "between two training steps" if claim.per == "step" else "in a forward pass"
        return f"{plural} {verb} {place}{when}."

    def finding(
        self,
        invariant: Invariant[ParameterMoves | BufferMoves | ChangesOutside],
        run: Run,
        examples: Examples,
        broken: Ints,
    ) -> Finding:
        claim = invariant.claim
        names = listed(variable_names(run, examples, broken))
        if isinstance(claim, ChangesOutside):
            seen = examples.observed[int(broken[0])] if examples.observed is not None else "a different number of times"
            return Finding(
                f"{names} changed {_times(claim.times)} outside training in the golden run; in the candidate "
                f"{seen}: weights are merged, exchanged or restored differently.",
                f"changes {_times(claim.times)} outside training",
                f"changes {seen}",
            )
        place = "every training step" if claim.per == "step" else "every such forward pass"
        first = int(broken[0])
        process = run.processes[int(examples.process[first])]
        step = process.step_number(int(examples.row[first]))
        if claim.moves:
            variable = int(examples.variable[first])
            copy = " (in no optimizer: a copy such as an EMA)" if _is_copy(process, variable) else ""
            root = int(Variables.of(process).root[variable])
            apart = claim.per == "step" and root not in trained_roots(process)
            return Finding(
                f"{names}{copy} changed in {place} of the golden run, but {_how_rarely(examples, broken, step)} in "
                "the candidate.",
                f"changes in {place}",
                f"unchanged: {names}",
                deviation=Deviation.LACKING,
                common_cause=f"average {process.names.roots[root]}" if apart else "",
            )
        return Finding(
            f"{names} never changed in the golden run; in the candidate the value changes at step {step}.",
            "constant",
            f"changes: {names}",
            deviation=Deviation.EXTRA,
        )


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _outside_changes(process: Process) -> tuple[Ints, Ints]:
    """Parameters that no optimizer holds, of models of which it holds others, and how often each was seen to change in
    evaluation or after the last step. Averages, which are models of their own, change whenever they are looked at.
    """
    variables = Variables.of(process)
    events = process.events
    ids = variables.ids("parameter")
    ids = ids[~variables.held[ids] & np.isin(variables.root[ids], variables.root[variables.held])]
    rows = variables.rows
    outside = (process.stage[rows] == EVAL) | (process.window[rows] >= process.windows)
    rows = rows[(events["old"][rows] != fmt.UNSEEN) & outside]
    return ids, np.bincount(events["subject"][rows], minlength=len(variables.symbols))[ids]


def _exchanges(process: Process) -> Mapping[str, int]:
    """How often the parameters of a model change outside training, where some do and all that do agree."""
    ids, counts = _outside_changes(process)
    roots = Variables.of(process).root[ids]
    found: dict[str, int] = {}
    for root in np.unique(roots[counts > 0]).tolist():
        mine = counts[(roots == root) & (counts > 0)]
        if len(set(mine.tolist())) == 1:
            found[process.names.roots[root]] = int(mine[0])
    return found


def _examples(process: Process, position: int, claim: ParameterMoves | BufferMoves | ChangesOutside) -> Examples:
    if isinstance(claim, ChangesOutside):
        return _per_run(process, position, claim)
    if isinstance(claim, BufferMoves) and claim.per == "forward":
        return _per_forward(process, position, claim)
    return _per_step(process, position, claim)


def _per_run(process: Process, position: int, claim: ChangesOutside) -> Examples:
    """One example for each parameter of the model that changes outside training at all."""
    ids, counts = _outside_changes(process)
    roots = Labels.of(Variables.of(process).root[ids], process.names.roots)
    mine = roots.isin([claim.root]) & (counts > 0)
    ids, counts = ids[mine], counts[mine]
    if not len(ids):
        return EMPTY
    events, variables = process.events, Variables.of(process)
    last = variables.last(ids, np.full(len(ids), np.iinfo(np.int32).max))
    texts = [_times(count) for count in range(int(counts.max()) + 1)]
    return Examples(
        np.asarray(counts == claim.times),
        np.full(len(ids), position),
        np.where(last >= 0, last, 0) if len(events) else last,
        ids,
        {"rank": rank_label(process, len(ids))},
        Labels.of(counts, texts),
    )


def _per_step(process: Process, position: int, claim: ParameterMoves | BufferMoves) -> Examples:
    """One example for each variable in each window but the first: an average has nothing to follow before the first
    step.
    """
    variables = Variables.of(process)
    ids = variables.ids(claim.kind)
    ends = process.step_ends
    if len(ends) < 2 or not len(ids):
        return EMPTY
    born_at = variables.first_seen(ids)
    after = np.repeat(ends[:-1], len(ids))
    until = np.repeat(ends[1:], len(ids))
    variable = np.tile(ids, len(ends) - 1)
    lead = np.array([step.row for step in process.lead_steps], dtype=np.int64)
    rows = np.repeat(lead[1:], len(ids))
    # A variable that came into being within the window has no earlier value; one of a model that is gone has no later
    # one.
    born = np.tile(born_at, len(ends) - 1)
    alive = (born <= after) & (process.era(born) == process.era(until))
    variable, rows, after, until = variable[alive], rows[alive], after[alive], until[alive]
    if claim.kind == "parameter":
        # What an optimizer holds is the business of its step, and may stand still when its gradient cancels.
        idle = ~variables.held[variable] & ~_rests_with_its_source(process, variable, after, moves=claim.moves)
        variable, rows, after, until = variable[idle], rows[idle], after[idle], until[idle]
    moved = variables.changed(variable, after, until)
    if not claim.moves:
        mine = ~_written_on_purpose(process, variable, until, moved)
        variable, rows, until, moved = variable[mine], rows[mine], until[mine], moved[mine]
    if claim.kind == "parameter" and claim.moves:
        # A copy may stand still where its source hardly moves: one that moves at all goes with its model.
        moved |= np.isin(variable, variable[moved]) & _model_moves(variables.root[variable], until, moved)
    context = variable_context(process, variable)
    kept = {name: context[name] for name in ("requires_grad", "root", "child", "variable")}
    kept["rank"] = rank_label(process, len(variable))
    return Examples(moved == claim.moves, np.full(len(variable), position), rows, variable, kept)


def _rests_with_its_source(process: Process, variable: Ints, after: Ints, *, moves: bool) -> Bools:
    """Which variables are of a copy, and follow what no step has changed by a time: they say nothing of how copies are
    made. Nor does it say anything against one that golden has never seen to move when what it follows begins to move
    in later steps than golden's runs had.
    """
    sources, stretch = sources_of(process), process.raw.stretch
    rests = sources.rest(variable, after)
    if moves:
        return rests
    if stretch is not None:
        rests |= sources.rest(variable, stretch.head_end)
    return np.asarray(rests & ~sources.stays[variable])


def _written_on_purpose(process: Process, variable: Ints, until: Ints, moved: Bools) -> Bools:
    """Which variables have changed in a window by nothing but what is there to change them: an average that begins to
    be made in later steps than golden's runs had, or an estimate of running statistics.
    """
    variables, events = Variables.of(process), process.events
    rows = variables.rows
    rows = rows[events["old"][rows] != fmt.UNSEEN]
    meant = process.inside(ESTIMATES)[rows]
    if process.raw.stretch is not None:  # Golden's number of steps is judged by itself.
        meant |= process.inside("update")[rows]
    if not meant.any():
        return np.zeros(len(variable), dtype=bool)

    def among_steps(rows: Ints) -> Ints:
        found: Ints = (events["subject"][rows].astype(np.int64) << 32) + process.window[rows]
        return found

    keys = (variable << 32) + np.searchsorted(process.step_ends, until)
    found: Bools = moved & among(keys, among_steps(rows[meant])) & ~among(keys, among_steps(rows[~meant]))
    return found


def _per_forward(process: Process, position: int, claim: BufferMoves) -> Examples:
    variables = Variables.of(process)
    ids = variables.ids(claim.kind)
    entries = process.entry_rows
    if not len(ids) or not len(entries):
        return EMPTY
    events = process.events
    modules = process.raw.symbols["mod"]
    rows, subjects = [], []
    paths = [str(symbol.get("path", "")) for symbol in modules]
    names = [str(symbol.get("name", "")) for symbol in variables.symbols]
    for number in np.unique(events["mod"][entries]).tolist():
        root, path = int(modules[number].get("root", 0)), paths[number]
        mine = ids[variables.root[ids] == root]
        if path:
            # A part that is called by itself moves its own buffers only.
            mine = mine[[names[item].startswith(f"{path}.") for item in mine.tolist()]] if len(mine) else mine
        calls = entries[events["mod"][entries] == number]
        rows.append(np.repeat(calls, len(mine)))
        subjects.append(np.tile(mine, len(calls)))
    row, variable = np.concatenate(rows), np.concatenate(subjects)
    if not len(row):
        return EMPTY
    begin_at, end_at = events["seq"][row].astype(np.int64), events["end"][row].astype(np.int64)
    seen = variables.last(variable, begin_at) >= 0
    row, variable, begin_at, end_at = row[seen], variable[seen], begin_at[seen], end_at[seen]
    moved = _changed_within(process, variable, row, begin_at, end_at)
    calls_context = call_context(process, row)
    own = variable_context(process, variable)
    context = {
        "stage": calls_context["stage"],
        "training": calls_context["training"],
        "rank": calls_context["rank"],
        "root": own["root"],
        "child": own["child"],
        "variable": own["variable"],
    }
    return Examples(moved == claim.moves, np.full(len(row), position), row, variable, context)


def _changed_within(process: Process, variable: Ints, row: Ints, begin: Ints, end: Ints) -> Any:
    """Changes between the call's begin and the buffer snapshot taken when it returns; the snapshot's rows carry the
    call as parent.
    """
    variables = Variables.of(process)
    events = process.events
    changes = variables.rows
    real = changes[events["old"][changes] != fmt.UNSEEN]
    keys = (events["subject"][real].astype(np.int64) << 32) + process.parent_row[real]
    return among((variable << 32) + row, keys) | variables.changed(variable, begin, end)


def _model_moves(root: Ints, window: Ints, moved: Bools) -> Bools:
    """Whether some parameter of the same model moved in the same window."""
    key = (root << 40) + window
    return np.isin(key, key[moved])


def _is_copy(process: Process, variable: int) -> bool:
    """A parameter of a model that is not called in training and that no optimizer holds."""
    variables = Variables.of(process)
    return (
        variables.kind[variable] == "parameter"
        and not variables.held[variable]
        and int(variables.root[variable]) not in trained_roots(process)
    )


def _how_rarely(examples: Examples, broken: Ints, step: int) -> str:
    """Whether the variables that broke the rule ever obey it."""
    mine = np.isin(examples.variable, examples.variable[broken])
    return f"not in step {step}" if examples.holds[mine].any() else "never"
