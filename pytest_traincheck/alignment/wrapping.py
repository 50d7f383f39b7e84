"""Models that were put into another one, or taken out of it, in the middle of a run.

The probe names a tensor by the model it lies in. When a model becomes a part of another one that was made later, its
variables end and those of the other begin; nothing in the training has changed. An optimizer that was made before
names its parameters by a model that may never be seen again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from pytest_traincheck.alignment.parts import ALIKE, Content, alike, content, subtrees
from pytest_traincheck.alignment.placement import Models, Move, below, joined
from pytest_traincheck.trace.labels import Ints
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.run import Run
from pytest_traincheck.trace.variables import Variables

_END = int(np.iinfo(np.uint32).max)
"""No event is later."""


def find_wrapped(golden: Models, candidate: Models, run: Run) -> tuple[Move, ...]:
    """Moves that give all variables of one tensor one name: the one that the golden knows it by.

    Where the golden knows both names it stays as it is, and so it does where it knows neither, unless only one of them
    was ever seen to hold something.
    """
    if not golden:
        return ()
    known = [content(parameters) for parameters in golden.values()]
    contents = {root: content(parameters) for root, parameters in candidate.items()}
    is_known = {root: any(alike(own, other) >= ALIKE for other in known) for root, own in contents.items()}
    # A larger model whose parts all have other names is found by its shapes, with the parts that golden's has.
    shapes = [sorted(map(tuple, parameters.values())) for parameters in golden.values()]
    renamed = {root for root, parameters in candidate.items() if sorted(map(tuple, parameters.values())) in shapes}
    unseen, set_up = _only_named(run), _only_in_set_up(run)
    single = {root for root, own in contents.items() if _outnumbers(own, known, candidate)}
    moves: list[Move] = []
    for whole, holder in itertools.permutations(candidate, 2):
        if {whole, holder} <= set_up:
            continue
        names = tuple(candidate[whole])
        holder_known = is_known[holder] or (holder in renamed and len(candidate[holder]) > len(names))
        if (whole not in unseen and is_known[whole] == holder_known) or (is_known[whole] and holder_known):
            continue
        for path, inner in subtrees(candidate[holder]).items():
            if len(inner) < len(names) or not contents[whole] <= content(inner):
                continue
            if whole in unseen:
                moves.append(Move(whole, "", holder, path))
                break
            if (
                whole in single
                and len(inner) == len(names)
                and all(_handed_over(process, (whole, ""), (holder, path), names) for process in run.processes)
            ):
                moves.append(Move(holder, path, whole, "") if is_known[whole] else Move(whole, "", holder, path))
                break
    return tuple(moves)


def _outnumbers(own: Content, known: Sequence[Content], candidate: Models) -> bool:
    """Whether golden has fewer models like this one than the run has models and parts like it.

    A model that begins as a copy of another one, loaded from its file, is a model of its own where golden has both.
    """
    parts = [inner for parameters in candidate.values() for inner in (parameters, *subtrees(parameters).values())]
    return sum(alike(own, other) >= ALIKE for other in known) < sum(
        alike(own, content(part)) >= ALIKE for part in parts
    )


def _only_named(run: Run) -> frozenset[str]:
    """Roots with parameters that were never looked at: they were gone before training began."""
    named: set[str] = set()
    seen: set[str] = set()
    for process in run.processes:
        variables = Variables.of(process)
        ids = variables.ids("parameter", tied=True)
        roots = [process.names.roots[number] for number in variables.root[ids].tolist()]
        named.update(roots)
        seen.update(itertools.compress(roots, (variables.first_seen(ids) <= _END).tolist()))
    return frozenset(named - seen)


def _only_in_set_up(run: Run) -> frozenset[str]:
    """Roots that training has nothing to do with: no optimizer holds anything of them, and they are not called or
    written to once it has begun. What models are made of is seen on its own while it is made.
    """
    made: set[str] = set()
    alive: set[str] = set()
    for process in run.processes:
        variables, events, names = Variables.of(process), process.events, process.names.roots
        ids = variables.ids("parameter", tied=True)
        made.update(names[number] for number in variables.root[ids].tolist())
        calls = process.rows_of_type("module")
        calls = calls[process.stage_labels.isin(["train", "eval"])[calls]]
        modules = process.raw.symbols["mod"]
        alive.update(names[modules[number].get("root", 0)] for number in np.unique(events["mod"][calls]).tolist())
        began = process.steps[0].begin if process.steps else 0
        rows = variables.rows
        written = np.unique(events["subject"][rows[events["seq"][rows] > began]])
        used = np.concatenate([ids[variables.held[ids]], written.astype(np.int64)])
        alive.update(names[number] for number in np.unique(variables.root[used]).tolist())
    return frozenset(made - alive)


def _ids(process: Process, place: tuple[str, str], names: Iterable[str]) -> Ints:
    """Parameters below a place; 0 where there is none."""
    known = Variables.of(process).ids("parameter", tied=True).tolist()
    numbers = {process.names.variables[number]: number for number in known}
    return np.array([numbers.get(joined(joined(*place), name), 0) for name in names], dtype=np.int64)


def _handed_over(process: Process, one: tuple[str, str], other: tuple[str, str], names: Sequence[str]) -> bool:
    """Whether one of two places ends with the content that the other begins with."""
    variables = Variables.of(process)
    first, second = _ids(process, one, names), _ids(process, other, names)
    if not (first.all() and second.all()):
        return False
    if variables.first_seen(first).min() > variables.first_seen(second).min():
        first, second, one = second, first, other
    begin = variables.first_seen(second)
    if begin.max() > _END:
        return False
    before, after = variables.last(first, begin), variables.last(second, begin)
    # A copy begins like its model, which goes on.
    if (before < 0).any() or (before != variables.last(first, np.full_like(begin, _END))).any():
        return False
    digest = process.events["digest"]
    return bool((digest[before] == digest[after]).all()) and not _called(process, one, int(begin.min()))


def _called(process: Process, place: tuple[str, str], since: int) -> bool:
    """Whether a model is called after a time, by the name of a place."""
    inside = np.array([below(joined(*place), name) is not None for name in process.names.modules], dtype=bool)
    rows = process.rows_of_type("module")
    rows = rows[process.events["seq"][rows] > since]
    return bool(inside[process.events["mod"][rows]].any())
