"""Whether a check without incidents means anything: what must be said beside its verdicts, and when it is no pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_traincheck.check.result import Coverage, InvariantVerdict, RunError, Verdict, Warned
from pytest_traincheck.golden.chance import chance
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.rules.model import Kind
from pytest_traincheck.text import plural
from pytest_traincheck.workflow.policy import Rules
from pytest_traincheck.workflow.runs import CANDIDATE

TRIGGERED_SHARE = 0.5
"""Share of the applicable rules that must come up in a run; golden runs have all of them, by construction."""


def cautions(golden: Golden, coverage: Coverage | None, rules: Rules) -> tuple[Warned, ...]:
    """What must not be overlooked in a check though no rule is broken."""
    # Imported here, since numpy is not needed to say that an option is wrong.
    from pytest_traincheck.check.coverage import warnings_of
    from pytest_traincheck.check.unsaid import unsaid

    titles = (*chance(golden), *unsaid(golden))
    return (*warnings_of(coverage, strict=rules.strict), *(Warned("golden", title) for title in titles))


def vacuous(verdicts: Sequence[InvariantVerdict]) -> tuple[RunError, ...]:
    """An error when so few rules came up that a pass would mean nothing; when it is none at all, with the reasons."""
    idle_verdicts = (Verdict.NOT_TRIGGERED, Verdict.NOT_OBSERVABLE)
    if all(item.verdict in idle_verdicts for item in verdicts):
        return (_nothing_checked(verdicts),)
    applicable = [item for item in verdicts if item.applicable and not _lacks_numbers(item)]
    idle = sum(item.verdict in idle_verdicts for item in applicable)
    if not applicable or idle <= len(applicable) * (1 - TRIGGERED_SHARE):
        return ()
    return (
        RunError(
            CANDIDATE,
            f"only {len(applicable) - idle} of {len(applicable)} rules of the golden came up in the candidate run, "
            "too few for a pass to mean anything",
            "look at what the pipeline does now; if it is another pipeline, learn its golden with `traincheck refresh`",
        ),
    )


def _nothing_checked(verdicts: Sequence[InvariantVerdict]) -> RunError:
    if not verdicts:
        return RunError(
            CANDIDATE,
            "the golden has no rules, so nothing was checked",
            "let the pipeline train for a few more steps and learn its golden with `traincheck refresh`",
        )
    tally = Counter(f"{item.verdict.value}: {item.reason}" for item in verdicts)
    reasons = "; ".join(f"{count} {reason}" for reason, count in tally.most_common(3))
    return RunError(
        CANDIDATE,
        f"none of {plural(len(verdicts), 'rule')} of the golden could be checked ({reasons})",
        "check a run of the golden's own command with its whole trace, or learn a golden of this one with "
        "`traincheck refresh`",
    )


def _lacks_numbers(item: InvariantVerdict) -> bool:
    """On a platform that nobody has learned from yet, numbers are unknown, which says nothing about the run."""
    return item.invariant.kind is Kind.NUMERIC and item.verdict is Verdict.NOT_OBSERVABLE
