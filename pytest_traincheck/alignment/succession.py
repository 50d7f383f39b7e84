"""Models and optimizers that take the place of earlier ones: a training that resumes makes them anew.

An optimizer succeeds another one if it is of the same class, holds parameters of the same names and shapes in models of
the same classes, and steps only after the other one's last step. With it come the models that are first called behind
that step, for those of the same parameters that are not called any more. What golden knows by a name of its own
succeeds nothing: there are two of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.run import Run
from pytest_traincheck.trace.variables import Variables

Names = Mapping[str, str]
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


@dataclass(frozen=True)
class Succession:
    """What takes the place of what in one process, each by its name there."""

    roots: Names = field(default_factory=dict)
    optimizers: Names = field(default_factory=dict)
    trained: frozenset[str] = frozenset()
    """The models whose place those take that an optimizer holds."""

    def is_that_of(self, other: Succession) -> bool:
        """Whether two ranks resume together. One rank may have made more models than another, such as an average that
        only rank 0 keeps, so that a model has another number there.
        """
        return self.trained == other.trained and sorted(self.optimizers.values()) == sorted(other.optimizers.values())


@dataclass(frozen=True)
class Known:
    """Models and optimizers that golden has, by name."""

    models: Collection[str]
    optimizers: Collection[str]


def first_known(process: Process) -> Known:
    """The models and optimizers that the first process of a training has."""
    variables = Variables.of(process)
    ids = variables.ids("parameter", tied=True)
    later = process.era(variables.first_seen(ids)) > 0
    gone = {process.names.roots[root] for root in np.unique(variables.root[ids[later]]).tolist()}
    gone -= {process.names.roots[root] for root in np.unique(variables.root[ids[~later]]).tolist()}
    made = {int(group.get("opt", 0)): int(group.get("seq", 0)) for group in reversed(process.raw.symbols["group"][1:])}
    begun = {number for number, at in made.items() if not process.era(at)}
    optimizers = {process.names.optimizers[number] for number in begun}
    return Known({*process.names.roots} - gone - {""}, optimizers - {""})


def with_models_of_all_ranks(run: Run) -> Run:
    """The run in which a model that goes on has one name on all ranks, where one of them has made more models than
    another: an average that rank 0 keeps, a copy that it writes.
    """
    going_on = [place for place, process in enumerate(run.processes) if process.raw.joins]
    if len(going_on) < 2:
        return run
    known = [first_known(process) for process in run.processes]
    first, *others = (_succession(run.processes[place], known[place]).roots for place in going_on)
    return run if all(each == first for each in others) else with_models_succeeding(run, known)


def with_models_succeeding(run: Run, known: Sequence[Known]) -> Run:
    """The run with models called as those whose place they take; `known` has golden's of each process."""
    return _succeeding(run, known, lambda found: (found.roots, {}))


def with_optimizers_succeeding(run: Run, known: Sequence[Known]) -> Run:
    """The same of optimizers. What they are called follows from what the models that they hold are called by now."""
    return _succeeding(run, known, lambda found: ({}, found.optimizers))


def _succeeding(run: Run, known: Sequence[Known], part: Callable[[Succession], tuple[Names, Names]]) -> Run:
    """Every process must say the same: ranks resume together. Where some go on with another process, only they have a
    say.
    """
    pairs = [*zip(run.processes, known, strict=True)]
    told = [pair for pair in pairs if pair[0].raw.joins] or pairs
    found = {id(process): _succession(process, names) for process, names in told}
    first = next(iter(found.values()), Succession())
    if not all(each.is_that_of(first) for each in found.values()):
        return run
    renamed = []
    for process in run.processes:
        roots, optimizers = part(found.get(id(process), Succession()))
        renamed.append(process.renamed(roots, optimizers) if roots or optimizers else process)
    return Run(run.path, tuple(renamed), run.workers, run.others, run.golden_models)


def _succession(process: Process, known: Known) -> Succession:
    spans = _optimizers(process)
    if len(spans) < 2:
        return Succession()
    held = _held(process)
    roots: dict[str, str] = _behind_joins(process, known)
    labels: dict[str, str] = {}
    for span in spans[1:]:
        before = [each for each in spans if each.what == span.what and each.end < span.begin]
        before = before or [each for each in spans if _goes_on(process, each, span)]
        if span.label in known.optimizers or not before or not span.what[1]:
            continue
        last = max(before, key=lambda each: each.end)
        labels[span.label] = labels.get(last.label, last.label)
        roots = {**_roots(process, last.end, known), **roots}
    first = {root: roots.get(other, other) for root, other in roots.items()}
    trained = {process.names.roots[root] for root in held}
    return Succession(first, labels, frozenset(other for root, other in first.items() if root in trained))


def _goes_on(process: Process, before: _Span, span: _Span) -> bool:
    """Whether an optimizer of a process that goes on with another one holds other parameters than the one before it:
    then something was frozen, or set free.
    """
    if process.era(before.end) >= process.era(span.begin) or before.what[0] != span.what[0]:
        return False
    return 2 * len(before.what[1] & span.what[1]) > max(len(before.what[1]), len(span.what[1]))


def _behind_joins(process: Process, known: Known) -> dict[str, str]:
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
        free = {what: [*there] for what, there in places.items()}
        for _, root, what in sorted(met, key=lambda item: item[:2]):
            alike = free.get(what)
            if not alike:
                places.setdefault(what, []).append(root)
                continue
            before = next((each for each in alike if (each in held) == (root in held)), alike[0])
            alike.remove(before)
            # Whether it was trained is asked of the latest of those that had the place: what is fixed now may thaw.
            held |= {before} if root in held else set()
            if names[root] not in known.models:
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


def _roots(process: Process, end: int, known: Known) -> dict[str, str]:
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
    new = [root for root in what if first[root] > end and what[root] and names[root] not in known.models]
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
