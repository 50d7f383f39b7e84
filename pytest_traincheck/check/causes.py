"""Which violation can be the cause of which: identity, containment, order and the flow of data in a training step.

A step flows from what the optimizer holds and the model's forward pass over loss, backward pass and clipping to the
update, and from there to copies, learning rates and other ranks. A violation is explained by one upstream of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pytest_traincheck.check.decisions import decided_together, handed_on
from pytest_traincheck.check.result import Violation
from pytest_traincheck.relations import relation_named
from pytest_traincheck.relations.counted import RESTORE
from pytest_traincheck.relations.meaning import Change, Deviation, Place
from pytest_traincheck.relations.settings import is_switch
from pytest_traincheck.rules.model import Kind

LATE_EFFECT = 3
"""From this layer on a violation speaks of an effect (of a call, on a variable, between ranks), which has a cause
before it.
"""

_UP_TO_GRADIENT = frozenset(
    {
        Place.HELD, Place.CLASS, Place.FORWARD, Place.LOSS, Place.BACKWARD, Place.ACCUMULATION, Place.EXCHANGE,
        Place.STEP, Place.DIVERGED,
    }
)  # fmt: skip
_UP_TO_UPDATE = _UP_TO_GRADIENT | {
    Place.CHOICE, Place.PREPARATION, Place.SCHEDULING, Place.RATE, Place.COURSE, Place.ARRIVAL, Place.RESUMED,
    Place.KEPT,
}  # fmt: skip

_SOURCES: dict[Place, frozenset[Place]] = {
    Place.INITIAL: frozenset({Place.INITIAL, Place.RESUMED}),
    Place.FORWARD: frozenset({Place.FORWARD, Place.EXCHANGE}),
    Place.ARRIVAL: _UP_TO_GRADIENT,
    Place.USE: _UP_TO_GRADIENT | {Place.PREPARATION, Place.ARRIVAL},
    Place.UPDATE: _UP_TO_UPDATE,
    Place.DIVERGED: _UP_TO_UPDATE,
    Place.COPY: frozenset(
        {
            Place.HELD, Place.CHOICE, Place.CLASS, Place.BACKWARD, Place.STEP, Place.SCHEDULING, Place.AVERAGING,
            Place.ARRIVAL, Place.UPDATE, Place.RATE, Place.COURSE,
        }
    ),
    Place.STATISTICS: frozenset(
        {Place.HELD, Place.FORWARD, Place.BACKWARD, Place.EXCHANGE, Place.STEP, Place.AVERAGING}
    ),
    Place.RATE: frozenset(
        {Place.CHOICE, Place.CLASS, Place.BACKWARD, Place.STEP, Place.SCHEDULING, Place.RESUMED}
    ),
    # What a schedule is relative to is decided elsewhere, and does not change its course.
    Place.COURSE: frozenset({Place.CLASS, Place.BACKWARD, Place.STEP, Place.SCHEDULING, Place.RESUMED}),
    Place.AGREEMENT: frozenset(
        {
            Place.HELD, Place.CLASS, Place.BACKWARD, Place.EXCHANGE, Place.STEP, Place.AVERAGING, Place.AGREEMENT,
            Place.KEPT,
        }
    ),
}  # fmt: skip
"""Effect -> what can produce it. What is not listed here, a rule of a plugin say, may follow from anything."""


_SEEN_IN_RESULTS = frozenset(
    {Place.DATA, Place.DRAWS, Place.INITIAL, Place.FORWARD, Place.LOSS, Place.BACKWARD, Place.EXCHANGE, Place.OTHER}
)
"""What makes calls give something else for the same, or losses and gradients come out differently."""

_DECIDE_DRAWS = frozenset(
    {
        Place.DATA, Place.CHOICE, Place.DRAWS, Place.FORWARD, Place.LOSS, Place.BACKWARD, Place.STEP, Place.SCHEDULING,
        Place.RUN, Place.OTHER,
    }
)  # fmt: skip
"""What is called, how and on what, which numbers that are drawn follow from."""


def layer_of(violation: Violation) -> int:
    """The layer of the violation's relation; that of an effect when the relation is not installed."""
    relation = relation_named(violation.invariant.relation)
    return relation.layer(violation.invariant.claim) if relation else LATE_EFFECT


def is_effect(violation: Violation) -> bool:
    return layer_of(violation) >= LATE_EFFECT


def may_be_in_other_words(violation: Violation) -> bool:
    """Whether a call is nowhere any more, and what it did may be written in words that nobody observes."""
    return has_vanished(violation) and violation.meaning.in_other_words


def can_follow(effect: Violation, cause: Violation) -> bool:
    """Whether one violation explains another that comes no earlier in the order of `explain`."""
    # Numbers name whole models; what they have to do with each other and with the rest is a matter of flow alone.
    if Kind.NUMERIC not in (effect.invariant.kind, cause.invariant.kind) and _same_root(effect, cause):
        return True
    if effect.meaning.place is Place.DRAWS and cause.meaning.place in _DECIDE_DRAWS and not is_effect(cause):
        return effect.step >= cause.step or has_vanished(cause) or cause.meaning.per_run
    if Place.RUN in (effect.meaning.place, cause.meaning.place):
        return _changes_totals(cause, effect)
    if is_effect(effect):
        return _flows(cause, effect)
    if effect.step < cause.step:
        return False
    return (
        _shift_together(cause, effect)
        or _calls_in_other_mode(cause, effect)
        or _trains_instead(cause, effect)
        or _nothing_to_schedule(cause, effect)
        or _comes_with_batches(cause, effect)
    )


def _changes_totals(cause: Violation, effect: Violation) -> bool:
    """Whether one of two violations, of which one is about a whole run, comes with the other."""
    if ends_early(cause):
        # What would have come later never does.
        return effect.meaning.place is Place.RUN or has_vanished(effect)
    if effect.meaning.place is not Place.RUN or ends_early(effect):
        return False
    return bool(_shared(cause, effect))


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
    if _left_out(violation) and _left_out(other) and (is_backward(violation) or is_backward(other)):
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
    what, why = effect.meaning.place, cause.meaning.place
    if what is Place.NUMBER and effect.step == cause.step - 1 and _left_out(cause) and is_backward(cause):
        return True  # A second step without a backward pass of its own makes more of what the first one did.
    if what is Place.NUMBER and effect.step == cause.step - 1 and cause.meaning.between_steps:
        return _same_roots(cause, effect)
    # A call that never comes may show before it is due; everything else comes before its effects.
    early = is_effect(cause) or cause.invariant.kind is Kind.CONFIG or what is Place.NUMBER
    if effect.step < cause.step and early and not has_vanished(cause):
        return False
    if cause.meaning.conditional:
        return effect.step >= cause.step  # All was golden's up to there: whatever is not from there on follows.
    if effect.meaning.conditional and why in _SEEN_IN_RESULTS and cause.step == effect.step:
        return True  # Two views of one change, whichever module shows it.
    if what is Place.NUMBER:
        return _same_roots(cause, effect)
    if why is Place.NUMBER:
        return False
    if is_effect(cause) and why not in _SOURCES.get(what, frozenset()):
        return False
    if what is Place.AGREEMENT and set(cause.ranks) < set(effect.ranks):
        return True  # What only some ranks do makes them differ, whatever it is.
    if what in (Place.RATE, Place.COURSE) and _evaluation_is_gone(cause):
        return True
    if what is Place.COURSE and _sizes_batches(cause):
        return True  # Epochs of another length, and schedules that count them.
    if effect.deviation is Deviation.NOT_FINITE:
        # Nothing was updated yet when the first numbers are computed: then only what goes into them explains it.
        at_once = why in _UP_TO_GRADIENT or why is Place.OTHER or _sizes_batches(cause)
        return at_once or cause.step < effect.step
    return why is Place.OTHER or what not in _SOURCES or why in _SOURCES[what]


def _shared(cause: Violation, effect: Violation) -> frozenset[Change]:
    """What shifts where one rule is broken, and breaks the other with it."""
    return cause.meaning.brings & effect.meaning.comes_with


def _shift_together(cause: Violation, effect: Violation) -> bool:
    shared = _shared(cause, effect)
    if Change.MODE in shared:
        # The way a model is called decides what its layers are called with.
        return _lies_in(effect, cause.modules)
    if cause.meaning.place is Place.HELD and Change.MODE in effect.meaning.comes_with and effect.module:
        # What is frozen is put into eval mode.
        return any(name.startswith(f"{effect.module}.") for name in cause.variables)
    # Windows end with steps: when the steps themselves are wrong, so is every count per window.
    return bool(shared - {Change.WINDOWS}) or (Change.WINDOWS in shared and not has_vanished(effect))


def _calls_in_other_mode(cause: Violation, effect: Violation) -> bool:
    """In another mode a module may call other functions: torch takes a faster way in eval mode where it can."""
    if not cause.modules or effect.meaning.place is not Place.FORWARD:
        return False
    model = effect.meaning.model
    if effect.deviation is Deviation.DIFFERENT or (model and not _is_of(model, cause.modules)):
        return False
    # What is not called has no place.
    return effect.deviation.is_absence or _lies_in(effect, cause.modules)


def comes_of_value(effect: Violation, cause: Violation) -> bool:
    """Whether something follows from a value that was set on modules: functions that are given it, and what a switch
    turns on or off in them.
    """
    set_on_modules = cause.meaning.place is Place.CHOICE and cause.modules and cause.changed
    if not set_on_modules or not cause.changed or (effect.step < cause.step and not effect.meaning.per_run):
        return False
    inside = _lies_in(effect, cause.modules)
    if effect.changed:
        # A loss may be computed outside of every module.
        handed = handed_on(cause.changed, effect.changed) if inside else cause.changed == effect.changed
        return handed and (inside or not effect.module) and effect.meaning.place is not Place.CHOICE
    if effect.deviation is Deviation.DIFFERENT or effect.meaning.place not in (Place.FORWARD, Place.LOSS):
        return False
    return all(map(is_switch, cause.changed)) and (inside or (effect.deviation.is_absence and not effect.module))


def comes_of_data(effect: Violation, cause: Violation) -> bool:
    """Whether what is written into stored data shows in the batches that are made of it, which may come before a look
    at the data.
    """
    return Change.VALUES in _shared(cause, effect)


def comes_of_loss(effect: Violation, cause: Violation) -> bool:
    """Whether state that is never loaded any more is state that a resume has lost: where it is missing says more."""
    if not has_vanished(effect) or not effect.meaning.acts.endswith(RESTORE):
        return False
    of_models = effect.meaning.acts.startswith("torch.nn.")
    return cause.meaning.place is (Place.KEPT if of_models else Place.RESUMED)


def comes_of_derivatives(effect: Violation, cause: Violation) -> bool:
    """Whether a loss is made of something else since derivatives in it are taken in another way."""
    return Change.DERIVATIVES in _shared(cause, effect) and effect.step >= cause.step


def comes_of_mode(effect: Violation, cause: Violation) -> bool:
    """Whether what modules do in another mode shows in a violation: functions and flags, numbers that are drawn,
    buffers and results of theirs.
    """
    if Change.MODE not in cause.meaning.brings or (effect.step < cause.step and not effect.meaning.per_run):
        return False
    if effect.meaning.place is Place.DRAWS or _calls_in_other_mode(cause, effect):
        return True
    if effect.variables and all(_is_within(name, cause.modules) for name in effect.variables):
        return effect.meaning.place is Place.STATISTICS
    by_mode = Change.MODE in effect.meaning.comes_with or effect.meaning.conditional
    return by_mode and _lies_in(effect, cause.modules)


def _is_of(model: str, modules: Iterable[str]) -> bool:
    return any(name.partition(".")[0] == model for name in modules)


def _lies_in(effect: Violation, modules: Iterable[str]) -> bool:
    """Whether something happened in one of these modules, or in what lies in them."""
    return any(_is_within(place, modules) for place in effect.modules or (effect.module,))


def _is_within(place: str, modules: Iterable[str]) -> bool:
    return any(f"{place}.".startswith(f"{name}.") for name in modules)


def _trains_instead(cause: Violation, effect: Violation) -> bool:
    """Where golden evaluated, the candidate trains: windows of their own, without what the training loop does around
    them.
    """
    return _evaluation_is_gone(cause) and is_in_some_windows(effect)


def _nothing_to_schedule(cause: Violation, effect: Violation) -> bool:
    """Steps that never happen have no schedule to follow."""
    never = has_vanished(cause) and has_vanished(effect)
    return never and cause.meaning.place is Place.STEP and effect.meaning.place is Place.SCHEDULING


def _sizes_batches(violation: Violation) -> bool:
    return Change.BATCHES in violation.meaning.brings


def _comes_with_batches(cause: Violation, effect: Violation) -> bool:
    """Batches of another size have other padding, and make epochs of another length."""
    if not _sizes_batches(cause):
        return False
    if _evaluation_is_gone(effect) or effect.meaning.place is Place.SCHEDULING:
        return True
    return effect.step > cause.step and effect.meaning.by_data


def trains_where_golden_evaluated(cause: Violation, effects: tuple[Violation, ...]) -> bool:
    """Whether evaluation is gone and training steps have come in its place."""
    return _evaluation_is_gone(cause) and any(is_in_some_windows(effect) for effect in effects)


def is_in_some_windows(violation: Violation) -> bool:
    """Whether something was as in golden in the first training steps, and is not in a later one."""
    known = violation.meaning
    return Change.LOOP in known.comes_with and violation.step > known.earliest and not has_vanished(violation)


def changes_class(violation: Violation) -> bool:
    return violation.meaning.place is Place.CLASS


def has_vanished(violation: Violation) -> bool:
    """Whether something that golden called is never called any more, so that the candidate has no line for it."""
    return violation.deviation is Deviation.NEVER


def _evaluation_is_gone(violation: Violation) -> bool:
    return violation.meaning.evaluates and has_vanished(violation)


def _same_model(mode: Violation, other: Violation) -> bool:
    """The way a model is called, and all of the variables of that model."""
    root = _model_of(mode)
    if not mode.meaning.is_mode or not root:
        return False
    if other.meaning.model == root:
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


def flow_order(violation: Violation) -> tuple[int, int]:
    """Upstream first, among violations of one layer at one step: gradients before parameters, losses before updates.

    What was computed from golden's very numbers comes before what only lies outside of a range.
    """
    known = violation.meaning
    if known.place is Place.CLASS:
        return (-1, 0)  # Settings of the optimizer that is gone come after it.
    if known.conditional:
        return (1, 0)
    return (2 if known.place is Place.NUMBER else 0, known.order)


def is_backward(violation: Violation) -> bool:
    """Whether the broken rule is about backward passes."""
    return violation.invariant.subject == "torch.autograd.backward"


def _left_out(violation: Violation) -> bool:
    """Whether something that comes in every step is missing in one of them."""
    return violation.deviation is Deviation.LEFT_OUT


def _too_often(violation: Violation) -> bool:
    """Whether something comes too often in a window between two steps."""
    return violation.deviation is Deviation.TOO_OFTEN and Change.WINDOWS in violation.meaning.comes_with
