"""Which part of a training a check looks at, and what that part can decide.

A whole run decides every rule. The beginning of one that goes on does not: what a run does somewhere may still come,
and what has no effect shows only when all of golden's steps were taken. Later steps decide what is true of each step,
and nothing about the run as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_traincheck.relations import meaning_of
from pytest_traincheck.relations.meaning import Evidence, Excuse, Meaning
from pytest_traincheck.rules.model import Invariant, Kind


@dataclass(frozen=True)
class Part:
    """What of a training is there to be checked."""

    goes_on: bool = False
    """More steps may follow, or have followed: rules about whole runs say nothing."""
    undecided: bool = False
    """Golden made more steps than are there: what breaks a rule may yet turn out to have no effect."""
    later: bool = False
    """These are steps that golden's runs never came to: nothing that they computed is known."""
    midway: bool = False
    """The training goes on with one that nobody observed: how that began is not known."""
    apart: bool = False
    """Steps lie between those that are there, which nobody observed."""
    other_length: bool = False
    """The candidate was told to train for longer than golden: when things come in it may follow from that."""
    granted: Mapping[str, str] = field(default_factory=dict)
    """Rules, by id, of which golden's own steps showed that breaking them has no effect, and what shows that."""

    def why_not(self, rule: Invariant) -> str:
        """Why a rule says nothing about this part; empty where it may."""
        meaning = meaning_of(rule)
        if self.goes_on and meaning.per_run:
            return "it is about whole runs, and this one goes on for longer than golden's"
        if self.later and meaning.by_length and not (meaning.at_resumes or meaning.recurs):
            return "it says at which steps something comes, and golden's runs did not come to these"
        if self.midway and meaning.at_beginning:
            return "it says what a training begins with, and this one goes on with one that was not watched"
        if self.apart and meaning.in_sequence:
            return "it compares steps that follow each other, and not every step was observed"
        if self.later and rule.kind is Kind.NUMERIC:
            return "it compares numbers, and golden's runs did not come to these steps"
        return ""

    def may_be_excused(self, meaning: Meaning) -> bool:
        """Whether the steps that are still to come may show that breaking a rule has no effect."""
        return self.undecided and (meaning.shown_by is not Evidence.NONE or meaning.excuse is not Excuse.NONE)


WHOLE = Part()
