"""Replay: what is given the same gives the same, or the first place where not.

The condition is part of the rule: only a call whose inputs, parameters and random state are golden's, within rounding,
owes golden's result. Another seed, other data or another order of random draws meet it nowhere, so nothing is claimed.
After the first deviation the inputs differ from the golden run's, so the cause is reported and not what follows.
What was recorded, how calls are matched and how far apart two results may be is in the package `replay`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np

from pytest_traincheck.golden.recording import Recording
from pytest_traincheck.looks import LATER, SKETCHES, Looks
from pytest_traincheck.optimizer_label import class_in
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, ReplayedClaim
from pytest_traincheck.relations.meaning import Excuse, Meaning, Place
from pytest_traincheck.relations.replay_wording import What, deviation, rule
from pytest_traincheck.replay import Claim as Compared
from pytest_traincheck.replay import against_itself, compare_run, courses, record, settled
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Run
from pytest_traincheck.trace.labels import Ints

_OUTSIDE = "torch.nn.Parameter"


@dataclass(frozen=True)
class Repeats(ReplayedClaim):
    """What is given the same gives the same: a sort of places, and what is compared there."""

    of: What
    what: str = ""


class Replay:
    """Calls of modules and functions, losses, gradients, updates and initial values, each where its condition holds."""

    name = "Replay"
    looks: ClassVar[Looks] = frozenset({LATER, SKETCHES})
    claims: ClassVar[tuple[type[Claim], ...]] = (Repeats,)

    def layer(self, claim: Repeats) -> int:
        # Gradients and updates are what ranks have agreed upon: that they do not agree comes first.
        return 5 if claim.of in ("gradient", "step", "variable", "later") else 4

    def meaning(self, rule: Invariant[Repeats]) -> Meaning:
        # The border of a module may have moved.
        of_a_call = rule.claim.of in ("module", "function")
        return Meaning(Place.NUMBER, conditional=True, excuse=Excuse.OWN_RESULT if of_a_call else Excuse.NONE)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        recorded = record(run)
        if recorded is None:
            return
        found = against_itself(recorded, run.platform)
        for what, subject in dict.fromkeys((claim.what, claim.subject) for claim in found.claims):
            claim = Repeats(cast("What", what), subject)
            yield Hypothesis(self.name, _subject(what, subject), claim, Kind.NUMERIC, Scope.PINNED)

    def recording(self, runs: Sequence[Run]) -> Recording | None:
        """What the first run computed, without the places where another was given the same and gave something else."""
        first, *others = runs
        return first.memo("settled", lambda: _settled(first, others))

    def examples(self, claim: Repeats, run: Run) -> Examples:
        claims = _claims(claim, run)
        if not claims:
            return EMPTY
        return Examples(
            np.array([item.holds for item in claims]),
            np.array([item.process for item in claims]),
            np.array([item.row for item in claims]),
            np.zeros(len(claims), dtype=np.int64),
        )

    def sentence(self, claim: Repeats, subject: str, when: str) -> str:
        return rule(claim.of, subject, when)

    def finding(self, invariant: Invariant[Repeats], run: Run, examples: Examples, broken: Ints) -> Finding:
        claims = _claims(invariant.claim, run)
        claim = replace(claims[int(broken[0])], among=bool(run.peers))
        source = run.processes[claim.process].source
        first, inner = (source(row) if row >= 0 else "" for row in (claim.first_row, claim.inner_row))
        return replace(deviation(invariant.subject, claim, first), place=first or inner)


def _claims(claim: Repeats, run: Run) -> list[Compared]:
    found = compare_run(claim.recording, run)
    wanted = claim.of, claim.what
    return [item for item in found.claims if (item.what, item.subject) == wanted] if found is not None else []


def _settled(first: Run, others: Sequence[Run]) -> Recording | None:
    recorded = record(first)
    if recorded is None:
        return None
    repeated = [found for run in others if (found := record(run)) is not None]
    return replace(settled(recorded, repeated, first.platform), courses=courses(first))


def _subject(what: str, subject: str) -> str:
    if what == "step":
        return f"{class_in(subject)}.step"
    if what in ("loss", "later"):
        return "torch.autograd.backward"
    if what in ("batch", "together"):
        return "torch.utils.data.DataLoader"
    return subject or _OUTSIDE
