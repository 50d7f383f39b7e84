"""From violations to incidents: what broke first, and what only followed from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_traincheck.check import causes
from pytest_traincheck.check.result import Incident, Violation, incident_id
from pytest_traincheck.golden.format_1 import ids_of
from pytest_traincheck.relations import Deviation
from pytest_traincheck.rules.model import Kind


def explain(violations: Sequence[Violation]) -> tuple[Incident, ...]:
    """Groups violations into incidents, ordered by first step and causality.

    A violation joins the first incident in which some violation explains it, see `causes.can_follow`; one that nothing
    explains is an incident of its own. What only explains is the cause of the incidents that it explains, and in none
    where it had no effect; so it is with a call that is nowhere any more, where other words may do the same.
    """
    groups: list[list[Violation]] = []
    ordered = sorted(violations, key=_order)
    for violation in (item for item in ordered if not item.meaning.only_explains):
        home = next((group for group in groups if _belongs(violation, group)), None)
        if home is None:
            groups.append([violation])
        else:
            home.append(violation)
    for root in [group[0] for group in groups]:
        groups = _gathered(groups, root)
    for violation in (item for item in ordered if item.meaning.only_explains):
        groups = _explained(groups, violation)
    groups = [group for group in groups if not all(map(causes.may_be_in_other_words, group))]
    return tuple(_incident(rank, group) for rank, group in enumerate(groups, start=1))


_LATER_CAUSES = (
    causes.comes_of_value,
    causes.comes_of_data,
    causes.comes_of_loss,
    causes.comes_of_derivatives,
)


def _gathered(groups: Sequence[list[Violation]], root: Violation) -> list[list[Violation]]:
    """The groups, with what follows from a value that was set on modules, from data that was written to, from state
    that was lost, or from how derivatives are taken, below it, whichever was seen first.
    """
    own = next((group for group in groups if group[0] is root), None)
    follow = [
        group for group in groups if group is not own and any(comes_of(group[0], root) for comes_of in _LATER_CAUSES)
    ]
    if own is None or not follow:
        return list(groups)
    merged = [root, *sorted((item for group in (own, *follow) for item in group if item is not root), key=_order)]
    joined = [own, *follow]
    first = next(group for group in groups if group in joined)
    return [merged if group is first else group for group in groups if group is first or group not in joined]


def _explained(groups: Sequence[list[Violation]], cause: Violation) -> list[list[Violation]]:
    """The groups, with one root for those whose roots follow from it."""
    home = next((group for group in groups if _belongs(cause, group)), None)
    if home is not None:
        return [[*group, cause] if group is home else group for group in groups]
    follow = [group for group in groups if causes.comes_of_mode(group[0], cause)]
    if not follow:
        # Something else is behind the rest; of that it is a part where it explains a consequence.
        home = next((group for group in groups if any(causes.comes_of_mode(item, cause) for item in group)), None)
        return [[*group, cause] if group is home else group for group in groups]
    merged = [cause, *sorted((item for group in follow for item in group), key=_order)]
    return [merged if group is follow[0] else group for group in groups if group is follow[0] or group not in follow]


def _belongs(violation: Violation, group: Sequence[Violation]) -> bool:
    return any(causes.can_follow(violation, other) for other in group)


def _order(violation: Violation) -> tuple[int, int, int, tuple[int, int], int, int, int, str]:
    # An effect may show before its cause is due (a call that never comes): within a run, causes come before effects.
    chosen = violation.invariant.kind is Kind.CONFIG
    return (
        int(causes.is_effect(violation)),
        -1 if causes.ends_early(violation) else violation.step,
        causes.layer_of(violation),
        causes.flow_order(violation),
        # What moved is missing where it was: that it moved says more.
        int(violation.deviation is not Deviation.MISPLACED),
        violation.seq,
        int(chosen) - int(causes.is_backward(violation)),
        # What nothing else decides is decided as it always was: by the id that the rule had first.
        ids_of(violation.invariant)[-1],
    )


def _incident(rank: int, group: Sequence[Violation]) -> Incident:
    root, consequences = group[0], tuple(group[1:])
    return Incident(incident_id(root, consequences), rank, _restated(root, consequences), consequences)


def _restated(root: Violation, consequences: tuple[Violation, ...]) -> Violation:
    """The root with a title that tells the cause where its consequences show more of it."""
    if not causes.trains_where_golden_evaluated(root, consequences):
        return root
    model = root.meaning.model
    step = min(item.step for item in consequences if causes.is_in_some_windows(item))
    return replace(
        root,
        title=f"The golden run evaluated `{model}` apart from training (`torch.nn.Module.forward` in eval); the "
        f"candidate never does, and trains where the golden run evaluated: see step {step}.",
    )
