"""What the parameters of a copy follow: those of the same names in a model that is trained, or in a part of one.

An average of what stands still moves by rounding errors or not at all, as chance has it, and which of the two is up to
how the average is written down. What stands still is seen by what steps have done to it, whatever the reason: it is
frozen, no optimizer holds it, or it has no gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pytest_traincheck.relations.context import trained_roots
from pytest_traincheck.trace import Process
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints
from pytest_traincheck.trace.variables import Variables

_NEVER = np.iinfo(np.int64).max
_Shape = tuple[int, ...]


@dataclass(frozen=True)
class Sources:
    """Of the parameters of one process, by id."""

    stepped: Ints
    """When a step first changed a source of each; before everything for what has no source, and behind everything where
    no step did.
    """
    stays: Bools
    """Whether each is of a model that does not follow: of its parameters whose sources do, none moves."""

    def rest(self, ids: Ints, seq: Ints | int) -> Bools:
        """Whether no step had changed what each one follows by a time."""
        return np.asarray(self.stepped[ids] >= seq)


def sources_of(process: Process) -> Sources:
    return process.memo(Sources, lambda: _found(process))


def _found(process: Process) -> Sources:
    variables = Variables.of(process)
    first, last = _first_stepped(process), _last_changed(process)
    stepped = np.full(len(variables.symbols), -1, dtype=np.int64)
    for copy, sources in _pairs(process):
        stepped[copy] = first[sources].min()
    followed = (stepped >= 0) & (stepped < _beginning(process))
    moves = last > stepped
    roots = variables.root
    stays = np.isin(roots, roots[followed]) & ~np.isin(roots, roots[followed & moves])
    return Sources(stepped, stays)


def _beginning(process: Process) -> int:
    """When the steps end by which it is known whether a copy follows: all but the last, behind which nobody may look
    any more; of a longer training those that golden had, since what begins to move later is to be judged by them.
    """
    ends, stretch = process.step_ends[-2:-1], process.raw.stretch
    if stretch is not None:
        return stretch.head_end
    return int(ends[0]) if len(ends) else 0


def _first_stepped(process: Process) -> Ints:
    """When a step of an optimizer first changed each variable."""
    events, rows = process.events, Variables.of(process).rows
    rows = rows[(events["old"][rows] != fmt.UNSEEN) & process.inside("optimizer")[rows]]
    found = np.full(len(Variables.of(process).symbols), _NEVER, dtype=np.int64)
    np.minimum.at(found, events["subject"][rows], events["seq"][rows].astype(np.int64))
    return found


def _last_changed(process: Process) -> Ints:
    """When each variable last changed; before everything where it never did."""
    events, rows = process.events, Variables.of(process).rows
    rows = rows[events["old"][rows] != fmt.UNSEEN]
    found = np.full(len(Variables.of(process).symbols), -1, dtype=np.int64)
    np.maximum.at(found, events["subject"][rows], events["seq"][rows].astype(np.int64))
    return found


def _pairs(process: Process) -> Iterator[tuple[int, list[int]]]:
    """The parameters of models that are not called in training, each with those that it may be a copy of: in the parts
    of trained models that have all parameters of the copy, or else of the same name in a trained model.
    """
    variables, trained = Variables.of(process), trained_roots(process)
    named: dict[str, list[int]] = {}
    by_root: dict[int, dict[str, int]] = {}
    for number in variables.ids("parameter", tied=True).tolist():
        root, name = int(variables.root[number]), str(variables.symbols[number].get("name", ""))
        by_root.setdefault(root, {})[name] = number
        if root in trained:
            named.setdefault(name, []).append(number)
    for root, mine in by_root.items():
        if root in trained or not root:
            continue
        parts = [each for other in sorted(trained) for each in _parts(variables, mine, by_root.get(other, {}))]
        for name, number in mine.items():
            sources = [part[name] for part in parts] or named.get(name)
            if sources:
                yield number, sources


def _parts(variables: Variables, mine: Mapping[str, int], others: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The parameters of each part of a model in which all of a copy are, in names and in shapes."""

    def shape(number: int) -> _Shape:
        return tuple(variables.symbols[number].get("shape") or ())

    one = next(iter(mine))
    for name in others:
        if name == one or name.endswith(f".{one}"):
            path = name.removesuffix(one)
            found = {key: others.get(f"{path}{key}", 0) for key in mine}
            if all(number and shape(number) == shape(mine[key]) for key, number in found.items()):
                yield found
