"""Preconditions: the weakest contexts in which a hypothesis holds in every example.

The idea is TrainCheck's (Jiang et al., OSDI 2025, section 3): a precondition must be true on all positive and false
on all negative examples; it is a conjunction, made disjunctive by splitting, or inverted where only the negatives have
a common shape. The search differs: examples are counted by context first, the smallest conjunction is found exactly,
fields are tried in the order of how much they mean, and the support that is demanded grows with the number of clauses
and of named things. `docs/preconditions.md` tells the story.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pytest_traincheck.infer.candidates import (
    Candidate,
    covering,
    meaningful_fields,
    pure,
    required_support,
    value_clauses,
)
from pytest_traincheck.infer.table import ContextTable, count_contexts
from pytest_traincheck.relations.base import ABSENT, Examples
from pytest_traincheck.rules.conditions import Clause, Condition, Except
from pytest_traincheck.trace.labels import Bools

MAX_CLAUSES = 3
MAX_ALTERNATIVES = 3
MIN_SHARE = 0.3
"""A precondition that keeps fewer than this share of the positive examples explains the negatives away rather than
the rule.
"""

MIN_ADDED = 0.1
"""An alternative must add this share of the positive examples to what the others admit."""

NOTHING_YET = Clause("first_step", ("yes",))
"""In the first step much holds because nothing has happened yet. It explains all positive examples or none: never one
alternative of several, and never the greater part.
"""


@dataclass(frozen=True)
class Precondition:
    """Conditions joined by "and", and the examples they admit, all of which are positive."""

    conditions: tuple[Condition, ...]
    admits: Bools


@dataclass(frozen=True)
class _Term:
    """A conjunction as the search sees it; `mask` are the contexts it admits."""

    parts: tuple[Candidate, ...]
    mask: Bools

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return tuple(part.condition for part in self.parts)


def weakest_preconditions(
    examples: Examples, runs: Sequence[int] = (), *, conjunction_only: bool = False
) -> tuple[Precondition, ...]:
    """The weakest safe precondition as alternatives joined by "or"; empty if no admissible one exists.

    Args:
        examples: all examples of all golden runs; the order of `context` is the order of preference.
        runs: how many of the examples belong to each golden run, in order; those beyond belong to varied runs. What is
            named must have been seen in every golden run.
        conjunction_only: whether only a single conjunction will do.
    """
    if not examples.holds.any():
        return ()
    if examples.holds.all():
        return (Precondition((), np.ones(len(examples), dtype=bool)),)
    table = count_contexts(examples, runs or (len(examples),))
    if table.good[table.bad == 0].sum() < MIN_SHARE * table.good.sum():
        # A precondition cannot tell apart what has the same context.
        return ()
    for terms in _attempts(table, conjunction_only):
        if terms:
            minimal = [_minimised(table, term) for term in terms]
            return tuple(Precondition(term.conditions, term.mask[table.of_example]) for term in minimal)
    return ()


def _attempts(table: ContextTable, conjunction_only: bool) -> Iterator[Sequence[_Term]]:
    """Ways to explain the negative examples, in order of preference; an empty one failed.

    Those that keep all positive examples come first, and among them those that name nothing.
    """
    everything, target = np.ones(len(table), dtype=bool), table.good > 0
    explicable = not (target & (table.bad > 0)).any()
    candidates = covering(table, target, everything) if explicable else []
    plain = [candidate for candidate in candidates if not candidate.pins]
    if explicable:
        yield _smallest(table, candidates, target, everything, range(1, 2))
        yield _smallest(table, plain, target, everything, range(2, MAX_CLAUSES + 1))
        if not conjunction_only:
            yield _inverted(table)
            yield _split(table, names=False)
            yield _split(table, names=True)
    yield _widest_clause(table, everything)
    if explicable:
        yield _smallest(table, candidates, target, everything, range(2, MAX_CLAUSES + 1))
        yield _narrowed(table, candidates)


def _admissible(table: ContextTable, conditions: Sequence[Condition], mask: Bools) -> bool:
    """Whether the support is enough: in all, and in every golden run."""
    enough = int(table.good[mask].sum()) >= required_support(conditions)
    return enough and bool((table.good_by_run[mask].sum(0) > 0).all())


def _smallest(
    table: ContextTable, candidates: Sequence[Candidate], target: Bools, within: Bools, sizes: range
) -> Sequence[_Term]:
    """The smallest conjunction that admits no negative example of `within`, the most preferred one of its size.

    Each candidate admits all of `target`, so this is a cover of the negative contexts by what the candidates exclude.
    """
    negative = np.flatnonzero(within & (table.bad > 0))
    excluded = np.array([~candidate.mask[negative] for candidate in candidates], dtype=bool)
    if not len(candidates) or not excluded.any(0).all():
        return ()
    patterns = np.unique(excluded, axis=1)
    covers = [sum(1 << int(bit) for bit in np.flatnonzero(row)) for row in patterns]
    full = (1 << patterns.shape[1]) - 1
    for size in sizes:
        for chosen in _by_preference(candidates, size):
            union = 0
            for number in chosen:
                union |= covers[number]
            if union == full:
                parts = tuple(candidates[number] for number in chosen)
                if _admissible(table, [part.condition for part in parts], target):
                    return (_Term(parts, _all_of(parts, within)),)
    return ()


def _by_preference(candidates: Sequence[Candidate], size: int) -> list[tuple[int, ...]]:
    """Combinations of candidates: those that name fewer things first, then in the order of the candidates."""
    pinned = [candidate.pins for candidate in candidates]
    return sorted(
        combinations(range(len(candidates)), size),
        key=lambda chosen: (sum(pinned[number] for number in chosen), chosen),
    )


def _all_of(parts: Sequence[Candidate], within: Bools) -> Bools:
    mask = within.copy()
    for part in parts:
        mask &= part.mask
    return mask


def _inverted(table: ContextTable) -> Sequence[_Term]:
    """Everywhere but where two clauses meet, which is where all negative examples are.

    Each of the two must be shown to matter by positive examples that meet the other.
    """
    negative, positive = table.bad > 0, table.good > 0
    if not (table.bad_by_run.sum(0) > 0).all():
        return ()
    shapes = []
    for name in meaningful_fields(table):
        column = table.columns[name]
        values = sorted({column.values[code] for code in column.codes[negative].tolist()})
        if ABSENT not in values and len(values) < len(column.values):
            shapes.append(Candidate(Clause(name, tuple(values)), column.isin(values)))
    for first, second in combinations(shapes, 2):
        if (first.mask & second.mask & positive).any():
            continue
        sides = (first.mask & ~second.mask, second.mask & ~first.mask)
        condition = Except(tuple(item.condition for item in (first, second) if isinstance(item.condition, Clause)))
        mask = ~(first.mask & second.mask)
        if all(_admissible(table, (), side) for side in sides) and _admissible(table, [condition], mask):
            return (_Term((Candidate(condition, mask),), mask),)
    return ()


def _split(table: ContextTable, *, names: bool) -> Sequence[_Term]:
    """One conjunction for each value of the most meaningful field that makes this possible, or nothing.

    Args:
        names: whether a conjunction may name things.
    """
    for field in meaningful_fields(table):
        if field == NOTHING_YET.field:
            continue
        parts = value_clauses(table, field)
        if not 1 < len(parts) <= MAX_ALTERNATIVES:
            continue
        clean = [part for part in parts if not (part.mask & (table.bad > 0)).any()]
        mixed = [part for part in parts if part not in clean]
        terms = [_term_of_values(clean)] if clean else []
        for part in mixed:
            target = part.mask & (table.good > 0)
            inner = [item for item in covering(table, target, part.mask) if names or not item.pins]
            found = _smallest(table, inner, target, part.mask, range(1, MAX_CLAUSES))
            terms += [_Term((part, *term.parts), term.mask) for term in found]
        if len(terms) == len(mixed) + bool(clean):
            terms = list(_without_repeats([_minimised(table, term) for term in terms]))
            if all(_worth_saying(table, term, terms) for term in terms):
                return terms
    return ()


def _worth_saying(table: ContextTable, term: _Term, terms: Sequence[_Term]) -> bool:
    others = np.logical_or.reduce([other.mask for other in terms if other is not term] + [np.zeros_like(term.mask)])
    added = int(table.good[term.mask & ~others].sum())
    return added >= MIN_ADDED * table.good.sum() and _admissible(table, term.conditions, term.mask)


def _term_of_values(parts: Sequence[Candidate]) -> _Term:
    """Values of one field as one clause."""
    clauses = [part.condition for part in parts if isinstance(part.condition, Clause)]
    values = [value for clause in clauses for value in clause.values]
    mask = np.logical_or.reduce([part.mask for part in parts])
    return _Term((Candidate(Clause(clauses[0].field, tuple(values)), mask),), mask)


def _widest_clause(table: ContextTable, within: Bools, before: Sequence[Candidate] = ()) -> Sequence[_Term]:
    """One condition without negative examples that keeps most of the positive ones, but not all."""
    best: tuple[int, _Term] | None = None
    for candidate in pure(table, within):
        mask = within & candidate.mask
        kept = int(table.good[mask].sum())
        parts = (*before, candidate)
        if (
            candidate.condition != NOTHING_YET
            and kept >= MIN_SHARE * table.good.sum()
            and (best is None or kept > best[0])
            and _admissible(table, [part.condition for part in parts], mask)
        ):
            best = (kept, _Term(parts, mask))
    return (best[1],) if best else ()


def _narrowed(table: ContextTable, candidates: Sequence[Candidate]) -> Sequence[_Term]:
    """A condition that keeps all positive examples, and one more that keeps most of them and leaves no negative one."""
    for candidate in candidates:
        found = _widest_clause(table, candidate.mask, [candidate])
        if found:
            return found
    return ()


def _minimised(table: ContextTable, term: _Term) -> _Term:
    """The term without the conditions that no negative example needs; names go first, then what is least preferred."""
    parts = list(term.parts)
    everything = np.ones(len(table), dtype=bool)
    order = sorted(enumerate(term.parts), key=lambda entry: (entry[1].pins, entry[0]), reverse=True)
    for _, part in order:
        rest = [item for item in parts if item is not part]
        if not (_all_of(rest, everything) & (table.bad > 0)).any():
            parts = rest
    return _Term(tuple(parts), _all_of(parts, everything))


def _without_repeats(terms: Sequence[_Term]) -> Iterator[_Term]:
    """Terms that admit something which no other does; of equal ones the first."""
    for number, term in enumerate(terms):
        wider = [
            other
            for place, other in enumerate(terms)
            if not (term.mask & ~other.mask).any() and (place < number or (other.mask & ~term.mask).any())
        ]
        if not wider:
            yield term
