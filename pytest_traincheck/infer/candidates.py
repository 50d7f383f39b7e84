"""Candidate conditions: for each field, and each pair of fields, the one that fits the positive examples most tightly.

Candidates come in the order in which a precondition prefers them: fields that mean something, as the relation lists
them; then whether a name exists and whether two names are the same; then the names of one pipeline's things.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_traincheck.infer.table import ContextTable, names_seen
from pytest_traincheck.relations.base import ABSENT, COMPARABLE, PINNED_FIELDS, admitted
from pytest_traincheck.rules.conditions import Clause, Condition, Except, Exists, Same
from pytest_traincheck.trace.labels import Bools, Ints, Labels

MIN_EXAMPLES = 2
"""Below this a rule is an anecdote."""

SIGHTINGS, PINNED_SIGHTINGS = 2, 3
"""Positive examples that a value needs to be listed, at least one of them in every golden run. The name of one
pipeline's thing needs more than a mode.
"""

_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class Candidate:
    """A condition and the contexts of the table that meet it."""

    condition: Condition
    mask: Bools

    @property
    def pins(self) -> bool:
        return pins(self.condition)


def pins(condition: Condition) -> bool:
    """Whether a condition lists names of one pipeline's things, so that its rule holds for that pipeline alone."""
    return isinstance(condition, Clause) and condition.field in PINNED_FIELDS


def required_support(conditions: Sequence[Condition]) -> int:
    """Positive examples that a precondition needs: two, two more for each clause, two more for each list of names."""
    clauses = sum(len(item.parts) if isinstance(item, Except) else 1 for item in conditions)
    return MIN_EXAMPLES + 2 * clauses + 2 * sum(map(pins, conditions))


def covering(table: ContextTable, target: Bools, within: Bools) -> list[Candidate]:
    """Candidates that admit all of `target` and leave something of `within` out.

    Args:
        target: contexts with positive examples; a part of `within`.
    """
    found = []
    for name in _fields(table):
        candidate = _covering_clause(table, name, target, within)
        if candidate is not None:
            found.append(candidate)
    shapes = [Candidate(item, admitted(item, table.columns, len(table))) for item in _structural(table)]
    useful = [item for item in shapes if item.mask[target].all() and not item.mask[within].all()]
    return sorted([*found, *useful], key=lambda item: (item.pins, not isinstance(item.condition, Clause)))


def pure(table: ContextTable, within: Bools) -> list[Candidate]:
    """Candidates that admit no negative example of `within`, each as wide as it can be."""
    found = []
    for name in _fields(table):
        column = table.columns[name]
        good, bad = _by_value(table, column, within)
        clean = (good > 0) & (bad == 0) & _well_seen(table, name, within) & (np.array(column.values) != ABSENT)
        if name in PINNED_FIELDS:
            clean &= ~_like_a_mixed_one(column.values, (good > 0) & (bad > 0))
        if clean.any():
            names = sorted(value for value, keep in zip(column.values, clean.tolist(), strict=True) if keep)
            found.append(Candidate(Clause(name, tuple(names)), clean[column.codes]))
    for item in _structural(table):
        mask = admitted(item, table.columns, len(table))
        if not (mask & within & (table.bad > 0)).any():
            found.append(Candidate(item, mask))
    return sorted(found, key=lambda item: (item.pins, not isinstance(item.condition, Clause)))


def value_clauses(table: ContextTable, name: str) -> list[Candidate]:
    """The parts into which a field splits the contexts that have positive examples, in the order of its values."""
    column = table.columns[name]
    seen = names_seen(column, table.good > 0)
    if ABSENT in seen:
        return []
    return [Candidate(Clause(name, (value,)), column.isin([value])) for value in sorted(seen)]


def meaningful_fields(table: ContextTable) -> list[str]:
    """Fields with several values that name nothing, in order of preference."""
    return [name for name in _fields(table) if name not in PINNED_FIELDS]


def _fields(table: ContextTable) -> list[str]:
    return [name for name, column in table.columns.items() if len(column.values) > 1]


def _covering_clause(table: ContextTable, name: str, target: Bools, within: Bools) -> Candidate | None:
    column = table.columns[name]
    wanted = names_seen(column, target)
    others = names_seen(column, within) - wanted
    if not others or ABSENT in wanted:
        return None
    # All values of a field but a few: the shorter form says more. Names of things are listed as they are, since a
    # new name was never seen to obey; and what has no value is never meant by "all but these".
    if name not in PINNED_FIELDS and len(others) < len(wanted) and ABSENT not in others:
        return Candidate(Clause(name, tuple(sorted(others)), negated=True), ~column.isin(others))
    seen = {value for value, well in zip(column.values, _well_seen(table, name, target).tolist(), strict=True) if well}
    if not wanted <= seen:
        return None
    return Candidate(Clause(name, tuple(sorted(wanted))), column.isin(wanted))


def _structural(table: ContextTable) -> Iterator[Condition]:
    """Conditions that speak of names without naming anything."""
    for name, column in table.columns.items():
        if name in PINNED_FIELDS and ABSENT in column.values and len(column.values) > 1:
            yield from (Exists(name), Exists(name, negated=True))
    for name, other in COMPARABLE:
        if name in table.columns and other in table.columns:
            yield from (Same(name, other), Same(name, other, negated=True))


def _by_value(table: ContextTable, column: Labels, within: Bools) -> tuple[Ints, Ints]:
    """How many positive and negative examples each value has."""
    size = len(column.values)
    codes = column.codes[within]
    counts = [np.bincount(codes, number[within], minlength=size) for number in (table.good, table.bad)]
    return counts[0].astype(np.int64), counts[1].astype(np.int64)


def _well_seen(table: ContextTable, name: str, within: Bools) -> Bools:
    """Values with enough positive examples, in every golden run."""
    column = table.columns[name]
    size = len(column.values)
    codes = column.codes[within]
    enough = np.bincount(codes, table.good[within], minlength=size) >= (
        PINNED_SIGHTINGS if name in PINNED_FIELDS else SIGHTINGS
    )
    for run in table.good_by_run.T:
        enough &= np.bincount(codes, run[within], minlength=size) > 0
    return np.asarray(enough, dtype=bool)


def _like_a_mixed_one(values: Sequence[str], mixed: Bools) -> Bools:
    """Names that differ only by a number from one that sometimes obeys and sometimes does not.

    `experts.3.weight` may have received a gradient in every golden step by chance, when `experts.5.weight` did not:
    layers that are numbered are interchangeable, so what is up to chance for one is up to chance for all.
    """
    patterns = [_DIGITS.sub("#", value) for value in values]
    tainted = {pattern for pattern, flag in zip(patterns, mixed.tolist(), strict=True) if flag}
    return np.array([pattern in tainted for pattern in patterns], dtype=bool)
