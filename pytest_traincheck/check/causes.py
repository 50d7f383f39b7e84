"""Which violation can be the cause of which: identity, containment, order and the flow of data in a training step.

A step flows from what the optimizer holds and the model's forward pass over loss, backward pass and clipping to the
update, and from there to copies, learning rates and other ranks. A violation is explained by one upstream of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from pytest_traincheck.check.decisions import decided_together
from pytest_traincheck.check.result import Violation
from pytest_traincheck.golden.model import Kind
from pytest_traincheck.relations import relations, vocabulary
from pytest_traincheck.relations.accumulate import USED
from pytest_traincheck.relations.api_arg import SET_BY_MODE
from pytest_traincheck.relations.meaning import Deviation
from pytest_traincheck.relations.schedule import is_base, is_relative

LATE_EFFECT = 3
"""From this layer on a violation speaks of an effect (of a call, on a variable, between ranks), which has a cause
before it.
"""

_NUMBERS_IN_ORDER = ("init", "input scale", "activation", "loss", "gradient", "update")
"""What numbers are about, upstream first."""

_COMPARED_IN_ORDER = ("gradient", "parameter", "buffer")
"""What is compared between ranks, upstream first."""


class Aspect(Enum):
    """What a violation is about, as a place in the flow of a training step."""

    DATA = auto()
    INITIAL = auto()
    RESUMED = auto()
    HELD = auto()
    CHOICE = auto()
    CLASS = auto()
    FORWARD = auto()
    LOSS = auto()
    BACKWARD = auto()
    ACCUMULATION = auto()
    PREPARATION = auto()
    EXCHANGE = auto()
    STEP = auto()
    SCHEDULING = auto()
    AVERAGING = auto()
    DIVERGED = auto()
    ARRIVAL = auto()
    USE = auto()
    UPDATE = auto()
    COPY = auto()
    STATISTICS = auto()
    RATE = auto()
    COURSE = auto()
    AGREEMENT = auto()
    NUMBER = auto()
    OTHER = auto()


_UP_TO_GRADIENT = frozenset(
    {
        Aspect.HELD, Aspect.CLASS, Aspect.FORWARD, Aspect.LOSS, Aspect.BACKWARD, Aspect.ACCUMULATION, Aspect.EXCHANGE,
        Aspect.STEP, Aspect.DIVERGED,
    }
)  # fmt: skip
_UP_TO_UPDATE = _UP_TO_GRADIENT | {
    Aspect.CHOICE, Aspect.PREPARATION, Aspect.SCHEDULING, Aspect.RATE, Aspect.COURSE, Aspect.ARRIVAL, Aspect.RESUMED,
}  # fmt: skip

_SOURCES: dict[Aspect, frozenset[Aspect]] = {
    Aspect.FORWARD: frozenset({Aspect.FORWARD, Aspect.EXCHANGE}),
    Aspect.ARRIVAL: _UP_TO_GRADIENT,
    Aspect.USE: _UP_TO_GRADIENT | {Aspect.PREPARATION, Aspect.ARRIVAL},
    Aspect.UPDATE: _UP_TO_UPDATE,
    Aspect.DIVERGED: _UP_TO_UPDATE,
    Aspect.COPY: frozenset(
        {
            Aspect.HELD, Aspect.CHOICE, Aspect.CLASS, Aspect.BACKWARD, Aspect.STEP, Aspect.SCHEDULING, Aspect.AVERAGING,
            Aspect.ARRIVAL, Aspect.UPDATE, Aspect.RATE, Aspect.COURSE,
        }
    ),
    Aspect.STATISTICS: frozenset(
        {Aspect.HELD, Aspect.FORWARD, Aspect.BACKWARD, Aspect.EXCHANGE, Aspect.STEP, Aspect.AVERAGING}
    ),
    Aspect.RATE: frozenset(
        {Aspect.CHOICE, Aspect.CLASS, Aspect.BACKWARD, Aspect.STEP, Aspect.SCHEDULING, Aspect.RESUMED}
    ),
    # What a schedule is relative to is decided elsewhere, and does not change its course.
    Aspect.COURSE: frozenset({Aspect.CLASS, Aspect.BACKWARD, Aspect.STEP, Aspect.SCHEDULING, Aspect.RESUMED}),
    Aspect.AGREEMENT: frozenset(
        {Aspect.HELD, Aspect.CLASS, Aspect.BACKWARD, Aspect.EXCHANGE, Aspect.STEP, Aspect.AVERAGING, Aspect.AGREEMENT}
    ),
}  # fmt: skip
"""Effect -> what can produce it. What is not listed here, a rule of a plugin say, may follow from anything."""


_SEEN_IN_RESULTS = frozenset(
    {Aspect.DATA, Aspect.INITIAL, Aspect.FORWARD, Aspect.LOSS, Aspect.BACKWARD, Aspect.EXCHANGE, Aspect.OTHER}
)
"""What makes calls give something else for the same, or losses and gradients come out differently."""

_ASPECTS = {
    "DataFlow": Aspect.LOSS,
    "LossScale": Aspect.LOSS,
    "LossTerms": Aspect.LOSS,
    "CollectiveOrder": Aspect.EXCHANGE,
    "Distinct": Aspect.DATA,
    "Bounded": Aspect.DATA,
    "Renewed": Aspect.DATA,
    "Shuffled": Aspect.DATA,
    "Initialised": Aspect.INITIAL,
    "Restored": Aspect.RESUMED,
    "Carried": Aspect.RESUMED,
}
"""Relations whose rules are all about one place."""


def layer_of(violation: Violation) -> int:
    """The layer of the violation's relation; that of an effect when the relation is not installed."""
    relation = relations().get(violation.invariant.relation)
    return relation.layer(violation.invariant.claim) if relation else LATE_EFFECT


def is_effect(violation: Violation) -> bool:
    return layer_of(violation) >= LATE_EFFECT


def aspect_of(violation: Violation) -> Aspect:
    """What the violation is about, judged by its rule."""
    rule = violation.invariant
    if rule.kind is Kind.NUMERIC:
        return Aspect.NUMBER
    if rule.relation == "Covered":
        return Aspect.HELD
    if rule.relation == "Hyperparameter":
        return Aspect.CLASS if changes_class(violation) else Aspect.CHOICE
    if rule.relation == "EventContain" and "change" in rule.claim:
        return Aspect.ARRIVAL if _is_backward(violation) else Aspect.UPDATE
    if rule.relation == "Moves":
        return Aspect.STATISTICS if rule.claim.get("kind") == "buffer" else Aspect.COPY
    if rule.relation == "Consistent":
        return Aspect.AGREEMENT if "across" in rule.claim else Aspect.FORWARD
    if _sizes_batches(violation):
        return Aspect.CHOICE
    if rule.relation == "Accumulate" and rule.claim.get("gradient") == USED:
        return Aspect.USE
    if rule.relation == "Schedule":
        return _aspect_of_schedule(rule.claim)
    if rule.relation == "Accumulate":
        return Aspect.ACCUMULATION
    if rule.relation in _ASPECTS:
        return _ASPECTS[rule.relation]
    if rule.claim.get("finite"):
        return Aspect.DIVERGED
    if "mode" in rule.claim or rule.relation in ("Count", "APIArg", "APIOutput", "APISequence", "EventContain"):
        return _aspect_of_call(rule.subject, "mode" in rule.claim)
    return Aspect.OTHER


def _aspect_of_schedule(claim: Mapping[str, Any]) -> Aspect:
    return Aspect.CHOICE if is_base(claim) else Aspect.COURSE if is_relative(claim) else Aspect.RATE


def _aspect_of_call(api: str, is_mode: bool) -> Aspect:
    if api.startswith(vocabulary.PARALLEL_WRAPPERS):
        return Aspect.EXCHANGE
    if is_mode or api.startswith("torch.nn.Module.forward"):
        return Aspect.FORWARD
    if vocabulary.is_loss(api):
        return Aspect.LOSS
    if api.startswith(vocabulary.F):
        return Aspect.FORWARD
    if api.startswith(("torch.autograd.", "torch.Tensor.backward")):
        return Aspect.BACKWARD
    if ".lr_scheduler." in api:
        return Aspect.SCHEDULING
    if ".swa_utils." in api:
        return Aspect.AVERAGING
    if ".clip_grad_" in api or "GradScaler" in api:
        return Aspect.PREPARATION
    return Aspect.STEP if api.endswith(".step") else Aspect.OTHER


def can_follow(effect: Violation, cause: Violation) -> bool:
    """Whether one violation explains another that comes no earlier in the order of `explain`."""
    # Numbers name whole models; what they have to do with each other and with the rest is a matter of flow alone.
    if Kind.NUMERIC not in (effect.invariant.kind, cause.invariant.kind) and _same_root(effect, cause):
        return True
    if "Total" in (effect.invariant.relation, cause.invariant.relation):
        return _changes_totals(cause, effect)
    if is_effect(effect):
        return _flows(cause, effect)
    if effect.step < cause.step:
        return False
    return (
        _passes_on_mode(cause, effect)
        or _shifts_windows(cause, effect)
        or _nothing_to_schedule(cause, effect)
        or _rescales(cause, effect)
        or _comes_with_batches(cause, effect)
    )


def _changes_totals(cause: Violation, effect: Violation) -> bool:
    """Whether one of two violations, of which one is about a whole run, comes with the other."""
    if ends_early(cause):
        # What would have come later never does.
        return effect.invariant.relation == "Total" or has_vanished(effect)
    if effect.invariant.relation != "Total" or ends_early(effect):
        return False
    return cause.invariant.relation in ("Total", "Count", "Accumulate", "APISequence") or _sizes_batches(cause)


def ends_early(violation: Violation) -> bool:
    """Whether the candidate's run was cut short: before everything else that it makes never come."""
    return violation.deviation is Deviation.CUT_SHORT


def _same_root(violation: Violation, other: Violation) -> bool:
    """Both are about one API, the same variables, or one thing that shows in two ways."""
    ours, theirs = violation.invariant, other.invariant
    if changes_class(other):
        # Whatever golden knew of the optimizer that is gone.
        return ours.subject.startswith(theirs.subject)
    if (together := decided_together(violation, other)) is not None:
        return together
    if _too_often(violation) and _too_often(other):
        # Windows end with steps: one step left out doubles every count of its window.
        return violation.step == other.step
    if _left_out(violation) and _left_out(other) and (_is_backward(violation) or _is_backward(other)):
        # A step that nothing came before: its window lacks all that golden's had.
        return violation.step == other.step
    if _same_model(violation, other) or _same_model(other, violation):
        return True
    if violation.common_cause and violation.common_cause == other.common_cause:
        return True
    if ours.subject == theirs.subject:
        return True
    return bool(set(violation.variables) & set(other.variables))


def _flows(cause: Violation, effect: Violation) -> bool:
    """Whether what the cause is about is upstream of the effect, no later, and on a way that leads there."""
    what, why = aspect_of(effect), aspect_of(cause)
    if what is Aspect.NUMBER and effect.step == cause.step - 1 and _left_out(cause) and _is_backward(cause):
        return True  # A second step without a backward pass of its own makes more of what the first one did.
    # A call that never comes may show before it is due; everything else comes before its effects.
    early = is_effect(cause) or cause.invariant.kind is Kind.CONFIG or what is Aspect.NUMBER
    if effect.step < cause.step and early and not has_vanished(cause):
        return False
    if cause.invariant.relation == "Replay":
        return effect.step >= cause.step  # All was golden's up to there: whatever is not from there on follows.
    if effect.invariant.relation == "Replay" and why in _SEEN_IN_RESULTS and cause.step == effect.step:
        return True  # Two views of one change, whichever module shows it.
    if what is Aspect.NUMBER:
        return _same_roots(cause, effect)
    if why is Aspect.NUMBER:
        return False
    if is_effect(cause) and why not in _SOURCES.get(what, frozenset()):
        return False
    if what is Aspect.AGREEMENT and set(cause.ranks) < set(effect.ranks):
        return True  # What only some ranks do makes them differ, whatever it is.
    if what in (Aspect.RATE, Aspect.COURSE) and _evaluation_is_gone(cause):
        return True
    if what is Aspect.COURSE and _sizes_batches(cause):
        return True  # Epochs of another length, and schedules that count them.
    if effect.deviation is Deviation.NOT_FINITE:
        # Nothing was updated yet when the first numbers are computed: then only what goes into them explains it.
        return cause.step < effect.step or why in _UP_TO_GRADIENT or _sizes_batches(cause)
    return why is Aspect.OTHER or what not in _SOURCES or why in _SOURCES[what]


def _nothing_to_schedule(cause: Violation, effect: Violation) -> bool:
    """Steps that never happen have no schedule to follow."""
    steps = cause.invariant.relation == "Count" and aspect_of(cause) is Aspect.STEP and has_vanished(cause)
    return steps and aspect_of(effect) is Aspect.SCHEDULING and has_vanished(effect)


def _rescales(cause: Violation, effect: Violation) -> bool:
    """What a loss function returns when it is called or given something differently is in another proportion to what
    is differentiated.
    """
    called_differently = cause.invariant.relation in ("APIArg", "DataFlow") and aspect_of(cause) is Aspect.LOSS
    return called_differently and effect.invariant.relation == "LossScale"


def _sizes_batches(violation: Violation) -> bool:
    return violation.invariant.relation == "Bounded" and violation.invariant.kind is Kind.CONFIG


def _comes_with_batches(cause: Violation, effect: Violation) -> bool:
    """Batches of another size make sums of another length, other padding, and epochs of another length."""
    if not _sizes_batches(cause):
        return False
    if effect.invariant.relation in ("LossScale", "LossTerms", "DataFlow"):
        return True
    if _evaluation_is_gone(effect) or aspect_of(effect) is Aspect.SCHEDULING:
        return True
    # What the program says shows in the first step; what shows later is up to the data.
    return effect.step > cause.step and effect.invariant.relation == "APIArg" and "mode" not in effect.invariant.claim


def _passes_on_mode(cause: Violation, effect: Violation) -> bool:
    """The way a model is called decides what its layers are called with, and what is frozen is put into eval mode."""
    if aspect_of(cause) is Aspect.HELD and effect.invariant.claim.get("argument") in SET_BY_MODE and effect.module:
        return any(name.startswith(f"{effect.module}.") for name in cause.variables)
    return (
        cause.invariant.claim.get("mode") == "training"
        and effect.invariant.claim.get("argument") in SET_BY_MODE
        and _model_of(cause) == _model_of(effect) != ""
    )


def _shifts_windows(cause: Violation, effect: Violation) -> bool:
    """Windows end with steps: when the steps themselves are wrong, so is every count per window."""
    if _counts_steps(cause):
        return effect.invariant.relation in ("Accumulate", "Distinct", "LossTerms") or (
            effect.invariant.relation == "Count" and not has_vanished(effect)
        )
    # Where golden evaluated, the candidate trains: windows of their own, without what the training loop does around.
    return _evaluation_is_gone(cause) and is_in_some_windows(effect)


def trains_where_golden_evaluated(cause: Violation, effects: tuple[Violation, ...]) -> bool:
    """Whether evaluation is gone and training steps have come in its place."""
    return _evaluation_is_gone(cause) and any(is_in_some_windows(effect) for effect in effects)


def is_in_some_windows(violation: Violation) -> bool:
    """Whether something was as in golden in the first training steps, and is not in a later one."""
    rule = violation.invariant
    if violation.step == 0 or has_vanished(violation):
        return False
    if rule.relation == "Accumulate":
        return violation.step > 1  # Step 0 starts with clean gradients anyway.
    if rule.relation in ("Count", "APISequence"):
        return True
    return rule.claim.get("mode") == "training" or rule.claim.get("argument") in SET_BY_MODE


def changes_class(violation: Violation) -> bool:
    return violation.invariant.relation == "Hyperparameter" and violation.invariant.claim.get("rule") == "class"


def has_vanished(violation: Violation) -> bool:
    """Whether something that golden called is never called any more, so that the candidate has no line for it."""
    return violation.deviation is Deviation.NEVER


def _evaluation_is_gone(violation: Violation) -> bool:
    api = str(violation.invariant.claim.get("api", ""))
    return api.startswith("torch.nn.Module.forward|") and api.endswith(" in eval") and has_vanished(violation)


def _same_model(mode: Violation, other: Violation) -> bool:
    """The way a model is called, and all of the variables of that model."""
    root = _model_of(mode)
    if "mode" not in mode.invariant.claim or not root:
        return False
    if str(other.invariant.claim.get("api", "")).startswith(f"torch.nn.Module.forward|{root} "):
        return True
    return bool(other.variables) and all(name.startswith(f"{root}.") for name in other.variables)


def _model_of(violation: Violation) -> str:
    return violation.module.partition(".")[0]


def _same_roots(violation: Violation, other: Violation) -> bool:
    """Whether the models that two violations name have one in common; one that names none may be about any."""
    ours, theirs = _models_of(violation), _models_of(other)
    return not ours or not theirs or bool(ours & theirs)


def _models_of(violation: Violation) -> set[str]:
    named = {name.partition(".")[0] for name in violation.variables}
    return named or ({_model_of(violation)} if violation.module else set())


def _number_order(violation: Violation) -> int:
    """Place of a number in the flow of a step, by what its rule says it measures."""
    claim = violation.invariant.claim
    text = str(claim.get("quantity") or json.dumps(dict(claim), default=str)).lower()
    found = [place for place, word in enumerate(_NUMBERS_IN_ORDER) if word in text]
    return found[0] if found else len(_NUMBERS_IN_ORDER)


def flow_order(violation: Violation) -> int:
    """Upstream first, among violations of one layer at one step: gradients before parameters, losses before updates.

    What was computed from golden's very numbers comes before what only lies outside of a range.
    """
    if changes_class(violation):
        return -1  # Settings of the optimizer that is gone come after it.
    if violation.invariant.relation == "Total":
        return 1  # What is missing in a step comes before what is missing in the whole run.
    if violation.invariant.relation == "Replay":
        return len(_COMPARED_IN_ORDER)
    if violation.invariant.kind is Kind.NUMERIC:
        return len(_COMPARED_IN_ORDER) + 1 + _number_order(violation)
    compared = violation.invariant.claim.get("kind") if violation.invariant.relation == "Consistent" else None
    return _COMPARED_IN_ORDER.index(compared) if compared in _COMPARED_IN_ORDER else 0


def _counts_steps(violation: Violation) -> bool:
    return violation.invariant.relation == "Count" and violation.invariant.subject.endswith(".step")


def _is_backward(violation: Violation) -> bool:
    return violation.invariant.subject == "torch.autograd.backward"


def _left_out(violation: Violation) -> bool:
    """Whether something that comes in every step is missing in one of them."""
    return violation.deviation is Deviation.LEFT_OUT


def _too_often(violation: Violation) -> bool:
    return violation.deviation is Deviation.TOO_OFTEN
