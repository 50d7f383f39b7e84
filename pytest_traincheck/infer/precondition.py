"""Preconditions: the weakest context in which a hypothesis holds in every example.

The idea is TrainCheck's (Jiang et al., OSDI 2025, section 3): a precondition must be true on all positive and false
on all negative
examples. The search differs: fields are tried in the order of how much they mean, one clause is preferred to two, and
the support
that is demanded grows with the number of clauses and of named values. `docs/preconditions.md` tells the story.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_traincheck.golden.model import Clause
from pytest_traincheck.relations.base import PINNED_FIELDS, Examples
from pytest_traincheck.trace.labels import Bools, Ints

_DIGITS = re.compile(r"\d+")

MAX_CLAUSES = 3
MIN_SHARE = 0.3
"""A precondition that keeps fewer than this share of the positive examples explains the negatives away rather than
the rule.
"""


@dataclass(frozen=True)
class Precondition:
    """Clauses joined by "and", and the examples they admit, all of which are positive."""

    clauses: tuple[Clause, ...]
    admits: Bools


def weakest_precondition(examples: Examples) -> Precondition | None:
    """The weakest safe precondition, or None if no admissible one exists.

    Args:
        examples: all examples of all golden runs; the order of `context` is the order of preference.
    """
    positives = int(examples.holds.sum())
    if not positives:
        return None
    everything = np.ones(len(examples), dtype=bool)
    if positives == len(examples):
        return Precondition((), everything)
    single = _single(examples, everything)
    if single is not None:
        return single
    return _conjunction(examples)


def _purity(codes: Ints, size: int, holds: Bools) -> tuple[Ints, Ints]:
    return np.bincount(codes[holds], minlength=size), np.bincount(codes[~holds], minlength=size)


def _single(examples: Examples, within: Bools) -> Precondition | None:
    """One clause that admits all positives and no negative; failing that, the one that admits most positives."""
    holds = examples.holds
    total = int((holds & within).sum())
    best: tuple[int, Precondition] | None = None
    for name, column in examples.context.items():
        codes = column.codes
        good, bad = _purity(codes[within], len(column.values), holds[within])
        pure = (good > 0) & (bad == 0)
        if name in PINNED_FIELDS:
            pure &= ~_like_a_mixed_one(column.values, (good > 0) & (bad > 0))
        if not pure.any():
            continue
        kept = int(good[pure].sum())
        values = sorted(value for value, keep in zip(column.values, pure, strict=True) if keep)
        negative = sorted(value for value, keep in zip(column.values, bad > 0, strict=True) if keep)
        if not _supported(good[pure], name):
            continue
        mask = within & pure[codes]
        if kept == total:
            # All values of a field that are not negative: the shorter form says more. Names of things are listed as
            # they are, since a
            # new name was never seen to obey.
            if name not in PINNED_FIELDS and len(negative) < len(values):
                return Precondition((Clause(name, tuple(negative), negated=True),), mask)
            return Precondition((Clause(name, tuple(values)),), mask)
        if kept >= MIN_SHARE * total and (best is None or kept > best[0]):
            best = (kept, Precondition((Clause(name, tuple(values)),), mask))
    return best[1] if best else None


def _conjunction(examples: Examples) -> Precondition | None:
    """Greedy: the clause that removes most negatives while it keeps all positives, again and again."""
    within = np.ones(len(examples), dtype=bool)
    clauses: list[Clause] = []
    holds = examples.holds
    while len(clauses) < MAX_CLAUSES - 1:
        best: tuple[int, str, list[str], Bools] | None = None
        for name, column in examples.context.items():
            good, bad = _purity(column.codes[within], len(column.values), holds[within])
            keep = good > 0
            removed = int(bad[~keep].sum())
            if removed and (best is None or removed > best[0]):
                values = sorted(value for value, wanted in zip(column.values, keep, strict=True) if wanted)
                best = (removed, name, values, within & keep[column.codes])
        if best is None:
            return None
        _, name, values, within = best
        clauses.append(Clause(name, tuple(values)))
        final = _single(examples, within)
        if final is not None:
            return Precondition((*clauses, *final.clauses), final.admits)
    return None


def _like_a_mixed_one(values: Sequence[str], mixed: Bools) -> Bools:
    """Names that differ only by a number from one that sometimes obeys and sometimes does not.

    `experts.3.weight` may have received a gradient in every golden step by chance, when `experts.5.weight` did not:
    layers that are numbered are interchangeable, so what is up to chance for one is up to chance for all.
    """
    patterns = [_DIGITS.sub("#", value) for value in values]
    tainted = {pattern for pattern, flag in zip(patterns, mixed.tolist(), strict=True) if flag}
    return np.array([pattern in tainted for pattern in patterns], dtype=bool)


def _supported(counts: Ints, field: str) -> bool:
    """Every named value must have been seen often enough; a name of one pipeline's thing more often than a mode."""
    return bool(counts.min() >= (3 if field in PINNED_FIELDS else 2))
