"""What every training has and a golden holds no rule about. Without a rule a change of it passes, and nobody would know
that nothing was looked at.
"""

from __future__ import annotations

from pytest_traincheck.golden.model import Golden
from pytest_traincheck.relations.event_contain import RECEIVES, InStep
from pytest_traincheck.relations.loss_terms import REACH, Reach
from pytest_traincheck.relations.schedule import Course, Rates
from pytest_traincheck.relations.total import Steps

_REMEDY = "Where that is not intended, let the seeds train alike in this, and refresh the golden."


def unsaid(golden: Golden) -> tuple[str, ...]:
    """A sentence or two for each: learning rates, the number of optimizer steps, the gradients that steps find. None
    for a golden in which no optimizer steps.
    """
    claims = [rule.claim for rule in golden.invariants]
    scheduled = {claim.optimizer for claim in claims if isinstance(claim, (Course, Rates))}
    reached = {claim.within for claim in claims if isinstance(claim, InStep) and claim.change == RECEIVES}
    found = [
        f"No rule says which learning rates `{label}` has: they differ between golden runs, follow a metric, or are "
        f"not to be seen, so that a change of them passes. {_REMEDY}"
        for label in golden.optimizers
        if label not in scheduled
    ]
    if golden.optimizers and not any(isinstance(claim, Steps) for claim in claims):
        found.append(
            "No rule says how many optimizer steps a run takes: golden runs differ in it, so that a training that "
            f"stops early or goes on for longer passes. {_REMEDY}"
        )
    if not any(isinstance(claim, Reach) and claim.of == REACH for claim in claims):
        found += [
            f"No rule says which parameters of `{label}` get gradients: golden runs differ in it, so that one that "
            f"never gets any passes. {_REMEDY}"
            for label, facts in golden.optimizers.items()
            if f"{facts.get('class')}.step" not in reached
        ]
    return tuple(found)
