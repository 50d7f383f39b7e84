"""What a law says of a run: it holds, it is broken, or it has nothing to speak of."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pytest_traincheck.relations.laws.law import Always
from pytest_traincheck.relations.registry import laws
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Run

Verdict = Literal["holds", "broken", "silent"]


def verdict(name: str, run: Run) -> Verdict:
    """What the law of this name says; of a broken one the texts are checked as well."""
    law = laws()[name]
    examples = law.examples(Always(), run)
    proposed = list(law.hypotheses(run))
    assert len(proposed) == bool(len(examples)), "a law is proposed where it can hold or fail, and only there"
    if not len(examples):
        return "silent"
    broken = np.flatnonzero(~examples.holds)
    if not len(broken):
        return "holds"
    rule = Invariant(name, proposed[0].subject, Always(), (), Scope.TRANSFERABLE, Kind.BEHAVIOUR, "")
    finding = law.finding(rule, run, examples, broken)
    assert finding.title and finding.golden and finding.candidate
    assert "golden" not in finding.title, "there is no golden run to speak of"
    return "broken"
