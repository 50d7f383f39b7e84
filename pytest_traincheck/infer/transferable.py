"""Rules that hold in several pipelines, for pipelines that were never seen: what a ready-made pack is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer.candidates import required_support
from pytest_traincheck.infer.known_stages import within_known_stages
from pytest_traincheck.infer.precondition import weakest_preconditions
from pytest_traincheck.infer.sentence import when_text
from pytest_traincheck.relations import Examples, Hypothesis, Relation, relations
from pytest_traincheck.relations.base import PINNED_FIELDS, is_measured
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Run

MIN_PIPELINES = 3
"""What two pipelines share may be a habit of their authors."""


def learn_transferable(
    pipelines: Sequence[Sequence[Run]], *, pipeline: str, environment: Mapping[str, str] | None = None, reason: str = ""
) -> Golden:
    """Transferable rules that no run of any pipeline breaks and at least `MIN_PIPELINES` of them show.

    Args:
        pipelines: the golden runs of each pipeline.

    Raises:
        ValueError: fewer than `MIN_PIPELINES` pipelines, or one without runs.
    """
    if len(pipelines) < MIN_PIPELINES or not all(pipelines):
        raise ValueError(
            f"transferable rules need the runs of at least {MIN_PIPELINES} pipelines, got {len(pipelines)}; "
            "add pipelines, or learn the golden of one with `learn`"
        )
    invariants: dict[str, Invariant] = {}
    for relation in relations().values():
        if is_measured(relation):
            continue  # numbers belong to one pipeline
        settled: set[str] = set()
        kept: set[str] = set()
        for hypothesis in _hypotheses(relation, pipelines):
            family = hypothesis.family or hypothesis.key
            if family in settled or hypothesis.implied_by in kept:
                continue
            found = _invariants(relation, hypothesis, pipelines)
            if found:
                settled.add(family)
                kept.add(hypothesis.key)
                invariants.update({invariant.id: invariant for invariant in found})
    return Golden(
        pipeline=pipeline,
        spec="",
        invariants=tuple(sorted(invariants.values(), key=lambda item: (item.subject, item.relation, item.sentence))),
        environment=dict(environment or {}),
        runs=sum(map(len, pipelines)),
        reason=reason,
    )


def _hypotheses(relation: Relation, pipelines: Sequence[Sequence[Run]]) -> list[Hypothesis]:
    """Of all pipelines, each once."""
    found: dict[str, Hypothesis] = {}
    for runs in pipelines:
        for hypothesis in relation.hypotheses(runs[0]):
            if hypothesis.scope is Scope.TRANSFERABLE:
                found.setdefault(hypothesis.key, hypothesis)
    return list(found.values())


def _invariants(relation: Relation, hypothesis: Hypothesis, pipelines: Sequence[Sequence[Run]]) -> list[Invariant]:
    tables = [
        Examples.concatenate([_without_names(relation.examples(hypothesis.claim, run)) for run in runs])
        for runs in pipelines
    ]
    tables = [table for table in tables if len(table)]
    if len(tables) < MIN_PIPELINES:
        return []
    examples = Examples.concatenate(tables)
    sizes = [len(table) for table in tables]
    found = []
    for item in weakest_preconditions(examples, sizes, conjunction_only=True):
        if int(item.admits.sum()) < required_support(item.conditions) or not _shown(item.admits, sizes):
            continue
        conditions = within_known_stages(examples, item)
        found.append(
            Invariant(
                relation=relation.name,
                subject=hypothesis.subject,
                claim=hypothesis.claim,
                when=conditions,
                scope=Scope.TRANSFERABLE,
                kind=hypothesis.kind,
                sentence=relation.sentence(hypothesis.claim, hypothesis.subject, when_text(conditions)),
                examples=int(item.admits.sum()),
                runs=sum(map(len, pipelines)),
            )
        )
    return found


def _without_names(examples: Examples) -> Examples:
    """Names of one pipeline's things mean nothing in another."""
    kept = {name: column for name, column in examples.context.items() if name not in PINNED_FIELDS}
    return replace(examples, context=kept)


def _shown(admits: np.ndarray[tuple[int], np.dtype[np.bool_]], sizes: Sequence[int]) -> bool:
    """Whether enough pipelines have an example that the precondition admits."""
    borders = np.cumsum([0, *sizes]).tolist()
    return sum(bool(admits[low:high].any()) for low, high in pairwise(borders)) >= MIN_PIPELINES
