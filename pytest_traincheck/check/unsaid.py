"""What every training has and a golden holds no rule about. Without a rule a change of it passes, and nobody would know
that nothing was looked at.
"""

from __future__ import annotations

from pytest_traincheck.golden.model import Golden
from pytest_traincheck.relations import meaning_of
from pytest_traincheck.relations.meaning import Basic

_REMEDY = "Where that is not intended, let the seeds train alike in this, and refresh the golden."


def unsaid(golden: Golden) -> tuple[str, ...]:
    """A sentence or two for each: learning rates, the number of optimizer steps, the gradients that steps find. None
    for a golden in which no optimizer steps.
    """
    meanings = [meaning_of(rule) for rule in golden.invariants]
    said = {(meaning.basic, meaning.basic_of) for meaning in meanings}
    found = [
        f"No rule says which learning rates `{label}` has: they differ between golden runs, follow a metric, or are "
        f"not to be seen, so that a change of them passes. {_REMEDY}"
        for label in golden.optimizers
        if (Basic.RATES, label) not in said
    ]
    if golden.optimizers and (Basic.STEPS, "") not in said:
        found.append(
            "No rule says how many optimizer steps a run takes: golden runs differ in it, so that a training that "
            f"stops early or goes on for longer passes. {_REMEDY}"
        )
    if (Basic.GRADIENTS, "") not in said:
        found += [
            f"No rule says which parameters of `{label}` get gradients: golden runs differ in it, so that one that "
            f"never gets any passes. {_REMEDY}"
            for label, facts in golden.optimizers.items()
            if (Basic.GRADIENTS, f"{facts.get('class')}.step") not in said
        ]
    return tuple(found)
