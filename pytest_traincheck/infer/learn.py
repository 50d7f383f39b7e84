"""Learns the golden of a pipeline from its golden runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from pytest_traincheck.golden.model import Golden, Invariant, Scope
from pytest_traincheck.infer.precondition import weakest_precondition
from pytest_traincheck.infer.wording import when_text
from pytest_traincheck.relations import Examples, Hypothesis, Relation, relations
from pytest_traincheck.relations.base import PINNED_FIELDS
from pytest_traincheck.trace import Run
from pytest_traincheck.trace.description import describe_models, describe_optimizers

MIN_EXAMPLES = 2
"""Below this a rule is an anecdote. Each clause of a precondition asks for two more."""


def learn(
    runs: Sequence[Run],
    *,
    pipeline: str,
    spec: str = "",
    commit: str = "",
    environment: Mapping[str, str] | None = None,
    seeds: tuple[int, ...] = (),
    reason: str = "",
    varied: Sequence[Run] = (),
) -> Golden:
    """Everything that held in every golden run.

    Args:
        runs: golden runs of one spec, e.g. one a seed.
        varied: runs of other specs (`vary`) that the transferable rules must obey as well.

    Raises:
        ValueError: `runs` is empty.
    """
    if not runs:
        raise ValueError("no golden run to learn from; run the pipeline at least once")
    table = relations()
    invariants: dict[str, Invariant] = {}
    settled: set[tuple[str, str]] = set()
    kept: set[str] = set()
    for relation, hypothesis in _hypotheses(table.values(), runs):
        family = (relation.name, hypothesis.family or hypothesis.key)
        if family in settled or hypothesis.implied_by in kept:
            continue
        invariant = _invariant(relation, hypothesis, runs, varied)
        if invariant is not None:
            settled.add(family)
            kept.add(hypothesis.key)
            invariants[invariant.id] = invariant
    return Golden(
        pipeline=pipeline,
        spec=spec,
        invariants=tuple(sorted(invariants.values(), key=_order)),
        commit=commit,
        environment=dict(environment or {}),
        seeds=seeds,
        runs=len(runs) + len(varied),
        reason=reason,
        models=describe_models(runs[0]),
        optimizers=describe_optimizers(runs[0]),
    )


def _order(invariant: Invariant) -> tuple[str, str, str, str]:
    return invariant.subject, invariant.relation, invariant.sentence, invariant.id


def _hypotheses(table: Iterable[Relation], runs: Sequence[Run]) -> Iterable[tuple[Relation, Hypothesis]]:
    """Each distinct hypothesis once, as the first run suggests them; the others confirm or refute."""
    for relation in table:
        seen: set[str] = set()
        for hypothesis in relation.hypotheses(runs[0]):
            if hypothesis.key not in seen:
                seen.add(hypothesis.key)
                yield relation, hypothesis


def _invariant(
    relation: Relation, hypothesis: Hypothesis, runs: Sequence[Run], varied: Sequence[Run]
) -> Invariant | None:
    by_run = [relation.examples(hypothesis.claim, run) for run in runs]
    if not all(len(examples) for examples in by_run):
        return None
    others = (
        [relation.examples(hypothesis.claim, run) for run in varied] if hypothesis.scope is Scope.TRANSFERABLE else []
    )
    examples = Examples.concatenate([*by_run, *others])
    found = weakest_precondition(examples)
    if found is None:
        return None
    pinned = any(clause.field in PINNED_FIELDS for clause in found.clauses)
    if pinned and others:
        # Names belong to one spec: judge a pinned rule by the runs of that spec alone.
        examples = Examples.concatenate(by_run)
        found = weakest_precondition(examples)
        if found is None:
            return None
    support = int(found.admits.sum())
    if support < MIN_EXAMPLES + 2 * len(found.clauses) and not _once_a_run(examples, len(runs)):
        return None
    # The rule must have come up in every run: what depends on chance is no rule.
    if not _in_every_run(found.admits, [len(part) for part in by_run]):
        return None
    when = when_text(found.clauses)
    return Invariant(
        relation=relation.name,
        subject=hypothesis.subject,
        claim=dict(hypothesis.claim),
        when=found.clauses,
        scope=Scope.PINNED if pinned else hypothesis.scope,
        kind=hypothesis.kind,
        sentence=relation.sentence(hypothesis.claim, hypothesis.subject, when),
        examples=support,
        runs=len(by_run),
    )


def _once_a_run(examples: Examples, runs: int) -> bool:
    """Rules about a whole run have one example each; they need every run rather than many examples."""
    return len(examples) >= runs and bool(examples.holds.all())


def _in_every_run(admits: np.ndarray[tuple[int], np.dtype[np.bool_]], sizes: Sequence[int]) -> bool:
    borders = np.cumsum([0, *sizes])
    return all(admits[low:high].any() for low, high in pairwise(borders.tolist()))
