"""From violations to incidents: what broke first, and what only followed from it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pytest_traincheck.check.result import Incident, Violation
from pytest_traincheck.golden.model import Kind
from pytest_traincheck.relations import relations

LATE_EFFECT = 3
"""From this layer on a violation speaks of an effect (of a call, on a variable, between ranks), which has a cause
before it.
"""


def explain(violations: Sequence[Violation]) -> tuple[Incident, ...]:
    """Groups violations into incidents, ordered by first step and causality.

    A violation follows from an earlier one if both are about the same API, the same variables or the same place; an
    effect on variables
    follows from any broken call or configuration that came no later.
    """
    ordered = sorted(violations, key=_order)
    groups: list[list[Violation]] = []
    for violation in ordered:
        home = next((group for group in groups if _follows(violation, group)), None)
        if home is None:
            groups.append([violation])
        else:
            home.append(violation)
    return tuple(_incident(rank, group) for rank, group in enumerate(groups, start=1))


def _layer(violation: Violation) -> int:
    relation = relations().get(violation.invariant.relation)
    return relation.layer(violation.invariant.claim) if relation else LATE_EFFECT


def _order(violation: Violation) -> tuple[int, int, int, int, int, str]:
    effect = _layer(violation) >= LATE_EFFECT
    # An effect may show before its cause is due (a call that never comes): within a run, causes come before effects.
    backward = violation.invariant.subject == "torch.autograd.backward"
    chosen = violation.invariant.kind is Kind.CONFIG
    return (
        int(effect),
        violation.step,
        _layer(violation),
        violation.seq,
        int(chosen) - int(backward),
        violation.invariant.id,
    )


def _follows(violation: Violation, group: Sequence[Violation]) -> bool:
    root = group[0]
    if any(_related(violation, other) for other in group):
        return True
    layer = _layer(violation)
    if layer >= LATE_EFFECT and _layer(root) < LATE_EFFECT:
        return root.invariant.kind is not Kind.CONFIG or violation.step >= root.step
    if violation.step < root.step:
        return False
    # Whatever happens inside a model depends on how the model is called.
    if layer > 1 and violation.module and _is_forward(root):
        return True
    # Windows end with steps: when the steps themselves are wrong, so is every count per window.
    if not _counts_steps(root):
        return False
    return violation.invariant.relation == "Accumulate" or (
        violation.invariant.relation == "Count" and not _vanished(violation)
    )


def _related(violation: Violation, other: Violation) -> bool:
    ours, theirs = violation.invariant, other.invariant
    if _changes_class(other):
        # Whatever golden knew of the optimizer that is gone.
        return ours.subject.startswith(theirs.subject)
    if ours.relation == theirs.relation == "Hyperparameter":
        return ours.claim.get("name") == theirs.claim.get("name")
    if _too_often(violation) and _too_often(other):
        # Windows end with steps: one step left out doubles every count of its window.
        return violation.step == other.step
    if _same_model(violation, other) or _same_model(other, violation):
        return True
    if violation.invariant.subject == other.invariant.subject:
        return True
    return bool(set(violation.variables) & set(other.variables))


def _same_model(mode: Violation, other: Violation) -> bool:
    """The way a model is called, and all of the variables of that model."""
    root = mode.module.partition(".")[0]
    if "mode" not in mode.invariant.claim or not root:
        return False
    if str(other.invariant.claim.get("api", "")).startswith(f"torch.nn.Module.forward|{root} "):
        return True
    return bool(other.variables) and all(name.startswith(f"{root}.") for name in other.variables)


def _is_forward(violation: Violation) -> bool:
    claim = violation.invariant.claim
    return "mode" in claim or str(claim.get("api", "")).endswith(".forward")


def _counts_steps(violation: Violation) -> bool:
    return violation.invariant.relation == "Count" and violation.invariant.subject.endswith(".step")


def _changes_class(violation: Violation) -> bool:
    return violation.invariant.relation == "Hyperparameter" and violation.invariant.claim.get("rule") == "class"


def _too_often(violation: Violation) -> bool:
    if violation.invariant.relation == "Accumulate":
        return violation.invariant.claim.get("gradient") == "whole"
    return violation.invariant.relation == "Count" and violation.candidate in ("called twice", "called many times")


def _vanished(violation: Violation) -> bool:
    return violation.candidate.startswith("never called")


def _incident(rank: int, group: Sequence[Violation]) -> Incident:
    root = group[0]
    text = "|".join([root.invariant.id, str(root.step), root.stage])
    return Incident(hashlib.blake2b(text.encode(), digest_size=6).hexdigest(), rank, root, tuple(group[1:]))
