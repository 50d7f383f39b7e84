"""Consistent: two variables have equal values while they may change: across ranks, and under tied names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, listed, variable_names
from pytest_traincheck.relations.context import variable_context
from pytest_traincheck.relations.meaning import Meaning, Place, Words
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Ints, Labels
from pytest_traincheck.trace.side_by_side import side_by_side
from pytest_traincheck.trace.variables import Variables

_GATHERING = Words(names=("all_reduce", "broadcast", "DistributedDataParallel", "DDP", "no_sync"), finds_variables=True)
"""How code makes ranks have the same."""

Shared = Literal["parameter", "gradient", "buffer"]
_IN_ORDER: tuple[Shared, ...] = ("gradient", "parameter", "buffer")
"""What is compared between ranks, upstream first."""
PLURALS: Mapping[Shared, str] = {"parameter": "Parameters", "gradient": "Gradients", "buffer": "Buffers"}


@dataclass(frozen=True)
class AcrossRanks(Claim):
    """Variables of a kind are equal on all ranks."""

    across: Literal["ranks"] = field(default="ranks", init=False)
    kind: Shared


@dataclass(frozen=True)
class Apart(Claim):
    """Different parameters have memory of their own."""

    apart: Literal[True] = field(default=True, init=False)


@dataclass(frozen=True)
class Tied(Claim):
    """Two names always hold one value."""

    tied: tuple[str, str]


class Consistent:
    """Parameters, buffers or gradients are equal on all ranks at every optimizer step; two names always hold one
    value (tied weights).

    Values are compared by content hash, so equal means equal to the last bit.
    """

    name = "Consistent"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (AcrossRanks, Apart, Tied)

    def layer(self, claim: AcrossRanks | Apart | Tied) -> int:
        return 5 if isinstance(claim, AcrossRanks) else 2

    def meaning(self, rule: Invariant[AcrossRanks | Apart | Tied]) -> Meaning:
        if not isinstance(rule.claim, AcrossRanks):
            tied = rule.claim.tied if isinstance(rule.claim, Tied) else ()
            words = replace(_GATHERING, variables=tied)
            return Meaning(Place.FORWARD, words=words)
        # What one rank has other gradients of, it has other parameters of afterwards.
        return Meaning(Place.AGREEMENT, order=_IN_ORDER.index(rule.claim.kind), words=_GATHERING)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        if run.peers:
            for kind in PLURALS:
                yield Hypothesis(self.name, f"torch.nn.Parameter across ranks ({kind})", AcrossRanks(kind))
        if any(len(process.measures("parameter.rms")) for process in run.processes):
            yield Hypothesis(self.name, "torch.nn.Parameter", Apart(), Kind.BEHAVIOUR, Scope.PINNED)
        for process in run.processes:
            variables = Variables.of(process)
            names = process.names.variables
            for number in variables.ids("parameter", tied=True).tolist():
                first = int(variables.first_name[number])
                if first != number and names[first] != names[number]:
                    one, other = sorted([names[first], names[number]])
                    claim = Tied((one, other))
                    yield Hypothesis(self.name, "torch.nn.Parameter", claim, Kind.BEHAVIOUR, Scope.PINNED)

    def examples(self, claim: AcrossRanks | Apart | Tied, run: Run) -> Examples:
        if isinstance(claim, Apart):
            return Examples.concatenate([_apart(process, number) for number, process in enumerate(run.processes)])
        if isinstance(claim, Tied):
            return Examples.concatenate(
                [_tied(process, position, claim.tied) for position, process in enumerate(run.processes)]
            )
        return Examples.concatenate([_across(run, peers, claim.kind) for peers in run.peers])

    def sentence(self, claim: AcrossRanks | Apart | Tied, subject: str, when: str) -> str:
        if isinstance(claim, Apart):
            return f"No two parameters share memory{when}."
        if isinstance(claim, Tied):
            return f"`{claim.tied[0]}` and `{claim.tied[1]}` are tied: they always hold the same value{when}."
        time = "when an optimizer step begins" if claim.kind == "gradient" else "after every optimizer step"
        return f"{PLURALS[claim.kind]} are equal on all ranks {time}{when}."

    def finding(
        self, invariant: Invariant[AcrossRanks | Apart | Tied], run: Run, examples: Examples, broken: Ints
    ) -> Finding:
        claim = invariant.claim
        if isinstance(claim, Apart):
            names = listed(variable_names(run, examples, broken))
            return Finding(
                f"In the golden run no two parameters shared memory; in the candidate {names} share memory with other "
                "parameters: what is written to one is written to both.",
                "no shared memory",
                f"shared: {names}",
            )
        if isinstance(claim, Tied):
            first, second = claim.tied
            return Finding(
                f"`{first}` and `{second}` were tied in the golden run (always the same value); in the candidate "
                "they differ.",
                "the two names hold the same value",
                "the two names hold different values",
            )
        names = listed(variable_names(run, examples, broken))
        kind = PLURALS[claim.kind].lower()
        after = ""
        if claim.kind == "gradient" and _were_equal_after_backward(run, examples, int(broken[0])):
            after = (
                " when the step begins, but not yet after `backward`: what is done to gradients in between, such as "
                "clipping, differs"
            )
        return Finding(
            f"{PLURALS[claim.kind]} were equal on all ranks in the golden run; in the candidate the {kind} of "
            f"{names} differ between ranks{after}.",
            "equal on all ranks",
            f"different between ranks: {names}",
            ranks=tuple(sorted({process.rank for process in run.processes})),
        )


def _apart(process: Process, position: int) -> Examples:
    """One example for each parameter: whether it lies where another one lies."""
    rows = process.measures("parameter.rms")
    if not len(rows):
        return EMPTY
    variable = process.events["args"][rows].astype(np.int64)
    sharing = process.events["args"][process.measures("parameter.shares")]
    context = variable_context(process, variable)
    return Examples(
        ~np.isin(variable, sharing),
        np.full(len(rows), position),
        rows,
        variable,
        {name: context[name] for name in ("root", "child", "variable")},
    )


def _were_equal_after_backward(run: Run, examples: Examples, place: int) -> bool:
    """Whether a gradient that differs when the step begins was the same on all ranks when the last `backward` ended."""
    first = run.processes[int(examples.process[place])]
    name = first.names.variables[int(examples.variable[place])]
    peers = next(group for group in run.peers if int(examples.process[place]) in group)
    beside = side_by_side(run, peers)
    step = int(np.searchsorted(beside.windows[0], first.window[examples.row[place]]))
    seen = set()
    for position, windows in zip(peers, beside.windows, strict=True):
        process, window = run.processes[position], int(windows[step])
        backward = process.rows_of_type("autograd", "collective")
        backward = backward[(process.window[backward] == window) & ~process.inside("optimizer")[backward]]
        numbers = [number for number, known in enumerate(process.names.variables) if known == name]
        ids = [number for number in numbers if Variables.of(process).kind[number] == "gradient"]
        if not len(backward) or not ids:
            return False
        end = int(process.events["end"][backward[-1]])
        seen.add(int(_digests(process, np.array(ids[:1]), np.array([end]))[0]))
    return len(seen) == 1 and 0 not in seen


def _digests(process: Process, variable: Ints, seq: Ints) -> Any:
    rows = Variables.of(process).last(variable, seq)
    events = process.events
    return np.where(rows >= 0, events["digest"][np.maximum(rows, 0)], 0)


def _across(run: Run, peers: tuple[int, ...], kind: Shared) -> Examples:
    """One example for each variable at each step of the lead optimizer, compared with the first rank of the launch."""
    first = run.processes[peers[0]]
    ids = _shared(run, peers, kind)
    if not len(ids):
        return EMPTY
    names = [first.names.variables[int(number)] for number in ids]
    beside = side_by_side(run, peers)
    steps = beside.count
    if not steps:
        return EMPTY
    columns = []
    for position, windows in zip(peers, beside.windows, strict=True):
        process = run.processes[position]
        variables = Variables.of(process)
        table = {process.names.variables[int(number)]: int(number) for number in variables.ids(kind)}
        mine = np.array([table.get(name, 0) for name in names], dtype=np.int64)
        lead = [process.lead_steps[window] for window in windows]
        times = np.array([step.begin if kind == "gradient" else step.end for step in lead], dtype=np.int64)
        columns.append(_digests(process, np.tile(mine, steps), np.repeat(times, len(mine))))
    equal = np.ones(len(columns[0]), dtype=bool)
    for column in columns[1:]:
        equal &= column == columns[0]
    # Copies that no module holds are found by what a program does with them, on one rank sooner than on another.
    copies = np.array([name.startswith(fmt.COPY_OF) for name in names], dtype=bool)
    seen = ~np.tile(copies, steps) | (np.array(columns) != 0).all(axis=0)
    lead_rows = np.array([first.lead_steps[window].row for window in beside.windows[0]], dtype=np.int64)
    rows, variable, equal = np.repeat(lead_rows, len(ids))[seen], np.tile(ids, steps)[seen], equal[seen]
    context = variable_context(first, variable)
    kept = {"first_step": Labels.flags(first.window[rows] == 0)}
    kept.update({name: context[name] for name in ("requires_grad", "root", "child", "variable")})
    return Examples(equal, np.full(len(rows), peers[0]), rows, variable, kept)


def _shared(run: Run, peers: tuple[int, ...], kind: Shared) -> Ints:
    """The variables of the first rank that lie in models of all ranks: one of them alone may keep an average, or write
    a copy in another dtype.
    """
    variables = Variables.of(run.processes[peers[0]])
    names = run.processes[peers[0]].names.roots
    everywhere = set(names)
    for position in peers[1:]:
        process = run.processes[position]
        there = Variables.of(process)
        everywhere &= {process.names.roots[root] for root in np.unique(there.root[there.ids(kind)]).tolist()}
    ids = variables.ids(kind)
    found: Ints = ids[np.isin(variables.root[ids], [number for number, name in enumerate(names) if name in everywhere])]
    return found


def _tied(process: Process, position: int, pair: tuple[str, str]) -> Examples:
    called: list[list[int]] = [[], []]
    for number in Variables.of(process).ids("parameter", tied=True).tolist():
        if process.names.variables[number] in pair:
            called[pair.index(process.names.variables[number])].append(number)
    if not all(called) or not process.steps:
        return EMPTY
    ends = np.concatenate([[process.steps[0].begin], process.step_ends])
    rows = np.array(
        [process.steps[0].row] + [step.row for step in process.lead_steps],
        dtype=np.int64,
    )
    one, other = (_tensor_at(process, numbers, ends) for numbers in called)
    # Two names of one tensor are equal by nature; otherwise the values decide.
    equal = (one == other) | (_digests(process, one, ends) == _digests(process, other, ends))
    return Examples(
        np.asarray(equal, dtype=bool),
        np.full(len(rows), position),
        rows,
        np.full(len(rows), called[1][-1]),
    )


def _tensor_at(process: Process, numbers: list[int], ends: Ints) -> Ints:
    """The tensor that a name stood for at each time, of variables that had the name: the one that was told of last. One
    that is tied to another name on the way, or no longer is, is another variable from then on.
    """
    variables = Variables.of(process)
    told = np.array([variables.last(np.full(len(ends), number), ends) for number in numbers])
    latest = np.array(numbers)[told.argmax(axis=0)]
    return np.asarray(variables.first_name[latest])
