"""Check mode: what a run that is checked by the rules of one golden need not be observed for, and what a run that was
observed so cannot say to the rules of another one.

A run in check mode gives the verdicts of a full observation. So only that is left out which nothing reads: no rule that
can apply, and, where golden's numbers may be at hand, nothing that compares the two runs. What windows, stages, names
and incidents are made of is no look that can be left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_traincheck.golden.model import Golden
from pytest_traincheck.looks import EVERYTHING, GRADIENT_NORMS, LATER, NOTHING, SKETCHES, Looks
from pytest_traincheck.relations import looks_of, meaning_of, relations
from pytest_traincheck.relations.base import is_measured, is_replayed
from pytest_traincheck.relations.meaning import Excuse
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Run

FOLLOWED = 128
"""Steps in which gradients have their norms whatever is left out (`STEPS` in the probe's `following.py`)."""


def not_needed(golden: Golden, *, same_spec: bool, numbers: bool) -> Looks:
    """What a candidate's run need not be observed for.

    Args:
        same_spec: as in `check_run`.
        numbers: whether golden's numbers of some platform may be at hand when the run is checked.
    """
    table = relations()
    needed: set[str] = set()
    for rule in golden.invariants:
        relation = table.get(rule.relation)
        without = not numbers and relation is not None and (is_measured(relation) or is_replayed(relation))
        if not without and (same_spec or rule.scope is Scope.TRANSFERABLE):
            needed |= looks_of(rule)
    # Names are matched by them as well, whatever ran, and rules excused. Numbers that are read later are those of the
    # same spec.
    if golden.recording is not None or (numbers and same_spec):
        needed |= {SKETCHES, LATER}
        # The steps of the two runs are held against each other, for as long as golden ran.
        if not 0 < golden.steps <= FOLLOWED:
            needed.add(GRADIENT_NORMS)
    return EVERYTHING - needed


@dataclass(frozen=True)
class Lacking:
    """What a run was not observed for, and whether golden's numbers would have been compared with it."""

    looks: Looks
    compared: bool = False

    def why_not(self, rule: Invariant) -> str:
        """Why a rule cannot be checked; empty where it can."""
        if missing := self.looks & looks_of(rule):
            return f"not observed in check mode: {', '.join(sorted(missing))}"
        if not self.looks <= EVERYTHING:
            return "this run was recorded by a version that leaves out what this one does not know of"
        # Without sketches a module may go by a name that is not golden's, and nothing shows that a rule is broken
        # without effect.
        if self.compared and (rule.scope is Scope.PINNED or meaning_of(rule).excuse is not Excuse.NONE):
            return f"not observed in check mode: {SKETCHES}, which tell whether the run computes what golden did"
        return ""


def lacking(golden: Golden, run: Run) -> Lacking:
    """What a run cannot say to the rules of this golden."""
    looks = run.not_needed
    if not looks:
        return Lacking(NOTHING)
    compared = SKETCHES in looks and golden.recording is not None and golden.platform == run.platform
    return Lacking(looks, compared)
