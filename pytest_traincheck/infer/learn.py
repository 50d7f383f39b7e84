"""Learns the golden of a pipeline from its golden runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from pytest_traincheck.alignment.arguments import describe_arguments
from pytest_traincheck.alignment.description import describe_models, describe_optimizers
from pytest_traincheck.alignment.trainings import as_trainings, succeeded, trainings
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.golden.numbers import Numbers
from pytest_traincheck.golden.recording import Recording
from pytest_traincheck.infer.candidates import pins, required_support
from pytest_traincheck.infer.known_stages import within_known_stages
from pytest_traincheck.infer.precondition import Precondition, weakest_preconditions
from pytest_traincheck.infer.seeds import ignores_seed, with_portrait, with_repeats
from pytest_traincheck.relations import Examples, Hypothesis, Relation, relations
from pytest_traincheck.relations.base import filled, in_set_up, is_measured, is_replayed
from pytest_traincheck.relations.precondition_wording import when_text
from pytest_traincheck.rules.conditions import Condition
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Run
from pytest_traincheck.trace.run import reject_partial


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
    repeated: Sequence[Run] = (),
) -> Golden:
    """Everything that held in every golden run.

    Args:
        runs: golden runs of one spec, e.g. one a seed.
        varied: runs of other specs (`vary`) that the transferable rules must obey as well.
        repeated: runs with the seed of the first, which show what comes again with the same seed.

    Raises:
        ValueError: `runs` is empty.
        TraceError: a run was recorded in check mode.
    """
    if not runs:
        raise ValueError("no golden run to learn from; run the pipeline at least once")
    for run in (*runs, *varied, *repeated):
        reject_partial(run)
    parts = _trainings(runs)
    runs, varied, repeated = (
        [succeeded(as_trainings(run, parts)) for run in each] for each in (runs, varied, repeated)
    )
    table = relations()
    invariants: dict[str, Invariant] = {}
    numbers: dict[str, Numbers] = {}
    settled: set[tuple[str, str]] = set()
    kept: set[str] = set()
    recording: Recording | None = None
    # A test may train twice under one seed. Where none is known, nobody knows whether it was the same.
    repeated = (*repeated, *(run for run in runs[1:] if run.seed and run.seed == runs[0].seed))
    for relation, hypothesis in _hypotheses(table.values(), runs):
        family = (relation.name, hypothesis.family or hypothesis.key)
        if family in settled or hypothesis.implied_by in kept:
            continue
        measured = _measured(relation, hypothesis, runs, repeated)
        if measured is None and (is_measured(relation) or is_replayed(relation)):
            continue
        confirming = runs[:1] if is_replayed(relation) else runs
        found = _invariants(relation, hypothesis, measured, confirming, varied)
        if isinstance(measured, Numbers):
            numbers.update({invariant.id: measured for invariant in found})
        elif found and measured is not None:
            recording = measured
        if found:
            settled.add(family)
            kept.add(hypothesis.key)
            invariants.update({invariant.id: invariant for invariant in found})
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
        arguments=describe_arguments(runs[0]),
        platform=runs[0].platform,
        numbers=numbers,
        recording=with_portrait(with_repeats(recording, repeated, runs[0].platform), runs),
        ignores_seed=ignores_seed(recording, runs, runs[0].platform),
        extensions={key: digest for run in (*runs, *varied) for key, digest in sorted(run.extensions_in_use.items())},
        steps=min(run.steps for run in runs),
        trainings=parts,
    )


def _trainings(runs: Sequence[Run]) -> tuple[int, ...]:
    """Which launches are parts of one training, if all runs say the same."""
    parts = {trainings(run) for run in runs}
    return parts.pop() if len(parts) == 1 else ()


def _measured(
    relation: Relation, hypothesis: Hypothesis, runs: Sequence[Run], repeated: Sequence[Run]
) -> Numbers | Recording | None:
    """The numbers that a hypothesis rests on, for the relations that need some."""
    if is_replayed(relation):
        return relation.recording([*runs, *repeated])
    return relation.fit(hypothesis.claim, runs) if is_measured(relation) else None


def _order(invariant: Invariant) -> tuple[str, str, str, str]:
    return invariant.subject, invariant.relation, invariant.sentence, invariant.id


def _hypotheses(table: Iterable[Relation], runs: Sequence[Run]) -> Iterable[tuple[Relation, Hypothesis]]:
    """Each distinct hypothesis once, as the first run suggests them; the others confirm or refute, and suggest it too
    where it has to be unanimous.

    What a rule of another relation may imply comes last, when all of those are known.
    """
    last: list[tuple[Relation, Hypothesis]] = []
    for relation in table:
        seen: set[str] = set()
        others: list[set[str]] = []
        for hypothesis in relation.hypotheses(runs[0]):
            if hypothesis.key in seen:
                continue
            seen.add(hypothesis.key)
            if hypothesis.unanimous:
                others = others or [{each.key for each in relation.hypotheses(run)} for run in runs[1:]]
                if not all(hypothesis.key in keys for keys in others):
                    continue
            if hypothesis.implied_by and hypothesis.implied_by not in seen:
                last.append((relation, hypothesis))
            else:
                yield relation, hypothesis
    yield from last


def _invariants(
    relation: Relation,
    hypothesis: Hypothesis,
    measured: Numbers | Recording | None,
    runs: Sequence[Run],
    varied: Sequence[Run],
) -> list[Invariant]:
    """What is left of a hypothesis: one invariant for each alternative of its precondition."""
    claim = hypothesis.claim if measured is None else filled(hypothesis.claim, measured)
    by_run = [relation.examples(claim, run) for run in runs]
    sizes = [len(part) for part in by_run]
    if not all(sizes):
        return []
    others = [relation.examples(claim, run) for run in varied] if hypothesis.scope is Scope.TRANSFERABLE else []
    # Where a weaker claim is at hand, it says more than a complicated condition of a stronger one.
    conjunction_only = bool(hypothesis.family)
    examples = Examples.concatenate([*by_run, *others])
    alternatives = weakest_preconditions(examples, sizes, conjunction_only=conjunction_only)
    found = [(item, examples, _pinned(item)) for item in alternatives]
    if others and any(pinned for _, _, pinned in found):
        # Names belong to one spec: judge a pinned rule by the runs of that spec alone.
        own = Examples.concatenate(by_run)
        alone = weakest_preconditions(own, sizes, conjunction_only=conjunction_only)
        found = [entry for entry in found if not entry[2]] + [(item, own, True) for item in alone]
    shown = any(in_set_up(part, run).any() for part, run in zip(by_run, runs, strict=True))
    return [
        _invariant(relation, hypothesis, item, within_known_stages(table, item, shown=shown), len(runs), pinned=pinned)
        for item, table, pinned in found
        if _supported(item, table, sizes)
    ]


def _invariant(
    relation: Relation,
    hypothesis: Hypothesis,
    precondition: Precondition,
    conditions: tuple[Condition, ...],
    runs: int,
    *,
    pinned: bool,
) -> Invariant:
    return Invariant(
        relation=relation.name,
        subject=hypothesis.subject,
        claim=hypothesis.claim,
        when=conditions,
        scope=Scope.PINNED if pinned else hypothesis.scope,
        kind=hypothesis.kind,
        sentence=relation.sentence(hypothesis.claim, hypothesis.subject, when_text(conditions)),
        examples=int(precondition.admits.sum()),
        runs=runs,
    )


def _pinned(precondition: Precondition) -> bool:
    return any(pins(condition) for condition in precondition.conditions)


def _supported(precondition: Precondition, examples: Examples, sizes: Sequence[int]) -> bool:
    """Enough examples, and some in every run: what depends on chance is no rule."""
    borders = np.cumsum([0, *sizes])
    if not all(precondition.admits[low:high].any() for low, high in pairwise(borders.tolist())):
        return False
    enough = int(precondition.admits.sum()) >= required_support(precondition.conditions)
    # Rules about a whole run have one example each; they need every run rather than many examples.
    return enough or (len(examples) >= len(sizes) and bool(examples.holds.all()))
