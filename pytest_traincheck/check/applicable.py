"""Which golden rules may be checked on a run: all on the same spec, fewer on a variation, fewest on another program."""

from __future__ import annotations

from enum import Enum, auto

from pytest_traincheck.alignment.description import describe_models
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.relations import meaning_of
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Run

AKIN_SHARE = 0.5
"""Share of the golden's parameters, by model and name, that a variation of
the same program has.
"""


class Kinship(Enum):
    """What the candidate is to the golden."""

    SAME = auto()
    """It ran what the golden ran."""
    VARIATION = auto()
    """The same program with other arguments, or rules that were learned from several programs."""
    FOREIGN = auto()
    """Another program than the only one that the golden knows."""


def kinship(golden: Golden, run: Run, *, same_spec: bool) -> Kinship:
    """Judges by the models of a run whose roots are called as in the golden."""
    if same_spec:
        return Kinship.SAME
    known = {(root, name) for root, shapes in golden.models.items() for name in shapes}
    if not known:
        return Kinship.VARIATION
    seen = {(root, name) for root, shapes in describe_models(run).items() for name in shapes}
    return Kinship.VARIATION if len(known & seen) >= AKIN_SHARE * len(known) else Kinship.FOREIGN


def why_not(invariant: Invariant, kin: Kinship) -> str:
    """Why a rule is not checked; empty if it is."""
    if kin is Kinship.SAME:
        return ""
    if invariant.scope is Scope.PINNED:
        return "pinned to the golden's own command, and the candidate ran another"
    if kin is Kinship.FOREIGN and not meaning_of(invariant).general:
        return "a habit of the one program it was learned from, and the candidate is another"
    return ""
