"""Models and optimizers that take the place of earlier ones: a training that resumes makes them anew.

An optimizer succeeds another one if it is of the same class, holds parameters of the same names and shapes in models of
the same classes, and steps only after the other one's last step. With it come the models that are first called behind
that step, for those of the same parameters that are not called any more. What golden knows by a name of its own
succeeds nothing: there are two of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_traincheck.alignment.placement import Models
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.run import Run
from pytest_traincheck.trace.variables import Variables

Parameters = frozenset[tuple[str, str, tuple[int, ...]]]
"""Class of the model, name and shape of each parameter."""


@dataclass(frozen=True)
class _Span:
    """When something was first and last at work."""

    number: int
    label: str
    begin: int
    end: int
    what: tuple[str, Parameters]


def successions(run: Run, models: Models, optimizers: Mapping[str, object]) -> tuple[dict[str, str], dict[str, str]]:
    """Roots and optimizers of a run by the name of what they take the place of; `models` and `optimizers` are golden's.

    Every process must say the same: ranks resume together. Where some go on with another process, only they have a say.
    """
    told = [process for process in run.processes if process.raw.joins] or run.processes
    found = [_successions(process, models, optimizers) for process in told]
    if not found or any(each != found[0] for each in found):
        return {}, {}
    return found[0]


def _successions(
    process: Process, models: Models, optimizers: Mapping[str, object]
) -> tuple[dict[str, str], dict[str, str]]:
    spans = _optimizers(process)
    if len(spans) < 2:
        return {}, {}
    roots: dict[str, str] = _behind_joins(process, models)
    labels: dict[str, str] = {}
    for span in spans[1:]:
        before = [each for each in spans if each.what == span.what and each.end < span.begin]
        before = before or [each for each in spans if _goes_on(process, each, span)]
        if span.label in optimizers or not before or not span.what[1]:
            continue
        last = max(before, key=lambda each: each.end)
        labels[span.label] = labels.get(last.label, last.label)
        roots = {**_roots(process, last.end, models), **roots}
    first = {root: roots.get(other, other) for root, other in roots.items()}
    return first, labels


def _goes_on(process: Process, before: _Span, span: _Span) -> bool:
    """Whether an optimizer of a process that goes on with another one holds other parameters than the one before it:
    then something was frozen, or set free.
    """
    if process.era(before.end) >= process.era(span.begin) or before.what[0] != span.what[0]:
        return False
    return 2 * len(before.what[1] & span.what[1]) > max(len(before.what[1]), len(span.what[1]))


def _behind_joins(process: Process, models: Models) -> dict[str, str]:
    """Models of a process that goes on with another one, each with the one whose place it takes: of those with the same
    parameters one that is trained for one that is, as an average is not, and then the first for the first.
    """
    if not process.raw.joins:
        return {}
    names, variables = process.names.roots, Variables.of(process)
    ids = variables.ids("parameter", tied=True)
    seen = variables.first_seen(ids)
    eras: dict[int, list[tuple[int, int, Parameters]]] = {}
    for root in np.unique(variables.root[ids]).tolist():
        mine = variables.root[ids] == root
        what = _parameters(process, ids[mine].tolist())
        if root and what and names[root]:
            ordinal = int(process.raw.symbols["root"][root].get("ordinal", 0))
            eras.setdefault(int(process.era(seen[mine].min())), []).append((ordinal, root, what))
    held, found = _held(process), dict[str, str]()
    places: dict[Parameters, list[int]] = {}
    for _, met in sorted(eras.items()):
        free = {what: [*known] for what, known in places.items()}
        for _, root, what in sorted(met, key=lambda item: item[:2]):
            alike = free.get(what)
            if not alike:
                places.setdefault(what, []).append(root)
                continue
            before = next((each for each in alike if (each in held) == (root in held)), alike[0])
            alike.remove(before)
            # Whether it was trained is asked of the latest of those that had the place: what is fixed now may thaw.
            held |= {before} if root in held else set()
            if names[root] not in models:
                found[names[root]] = names[before]
    return found


def _held(process: Process) -> set[int]:
    """The models of which an optimizer holds something."""
    variables = process.raw.symbols["var"]
    return {
        int(variables[number].get("root", 0))
        for group in process.raw.symbols["group"][1:]
        for number in group.get("params") or ()
    }


def _optimizers(process: Process) -> list[_Span]:
    """The optimizers that step, in the order of their first steps."""
    variables = Variables.of(process)
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    for step in process.steps:
        begin.setdefault(step.optimizer, step.begin)
        end[step.optimizer] = step.end
    found = []
    for number, at in begin.items():
        held = variables.membership(number, at).variables.tolist()
        what = process.optimizer_class[number], _parameters(process, held)
        found.append(_Span(number, process.names.optimizers[number], at, end[number], what))
    return sorted(found, key=lambda span: span.begin)


def _roots(process: Process, end: int, models: Models) -> dict[str, str]:
    """Models first called after `end`, each with one of the same parameters that is not called from then on."""
    names = process.names.roots
    symbols = process.raw.symbols["mod"]
    of_module = np.array([symbol.get("root", 0) for symbol in symbols], dtype=np.int64)
    calls = process.entry_rows
    called, seq = of_module[process.events["mod"][calls]], process.events["seq"][calls]
    variables = Variables.of(process)
    ids = variables.ids("parameter", tied=True)
    what = {
        root: _parameters(process, ids[variables.root[ids] == root].tolist()) for root in np.unique(called).tolist()
    }
    first = {root: int(seq[called == root].min()) for root in what}
    last = {root: int(seq[called == root].max()) for root in what}
    new = [root for root in what if first[root] > end and what[root] and names[root] not in models]
    gone = [root for root in what if what[root]]
    found: dict[str, str] = {}
    for root in sorted(new, key=lambda each: first[each]):
        alike = [other for other in gone if what[other] == what[root] and last[other] < first[root]]
        if alike:
            before = max(alike, key=lambda each: last[each])
            gone.remove(before)
            found[names[root]] = names[before]
    return found


def _parameters(process: Process, numbers: Sequence[int]) -> Parameters:
    variables, roots = Variables.of(process), process.raw.symbols["root"]
    return frozenset(
        (
            str(roots[int(symbol.get("root", 0))].get("class", "")),
            str(symbol.get("name", "")),
            tuple(symbol.get("shape") or ()),
        )
        for symbol in (variables.symbols[number] for number in numbers)
    )
