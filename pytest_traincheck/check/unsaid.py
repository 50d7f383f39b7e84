"""What every training has and a golden holds no rule about. Without a rule a change of it passes, and nobody would know
that nothing was looked at.
"""

from __future__ import annotations

from pytest_traincheck.golden.model import Golden
from pytest_traincheck.optimizer_label import BY_HAND, class_in
from pytest_traincheck.relations import meaning_of
from pytest_traincheck.relations.meaning import Basic, Place

_NO_OPTIMIZER = (
    "Gradients are computed in the golden runs, but no optimizer of `torch.optim` steps, and no parameter is seen to "
    "change after a `backward`: what `torch.func` or another library updates is not followed, so that no rule is about "
    "steps, learning rates, parameters or the order of the loop, and most changes of them pass. Let a "
    "`torch.optim.Optimizer` do the updates, a class of your own where need be."
)
_BY_HAND = (
    "No rule says which learning rates `{label}` has: the program makes the updates itself, and a rate is nowhere to "
    "be seen. Another one shows in the first two steps, where updates are compared with the golden run's, and passes "
    "later. Let a `torch.optim.Optimizer` do the updates, a class of your own where need be."
)
_REMEDY = "Where that is not intended, let the seeds train alike in this, and refresh the golden."


def unsaid(golden: Golden) -> tuple[str, ...]:
    """A sentence or two for each: learning rates, the number of optimizer steps, the gradients that steps find. One for
    all of them where something goes backward and no optimizer steps; none for a golden in which nothing is trained.
    """
    meanings = [meaning_of(rule) for rule in golden.invariants]
    said = {(meaning.basic, meaning.basic_of) for meaning in meanings}
    if not golden.optimizers:
        trains = any(meaning.place is Place.BACKWARD for meaning in meanings)
        return (_NO_OPTIMIZER,) if trains else ()
    by_hand = [label for label in golden.optimizers if class_in(label) == BY_HAND]
    found = [_BY_HAND.format(label=label) for label in by_hand[:1]]
    found += [
        f"No rule says which learning rates `{label}` has: they differ between golden runs, follow a metric, or are "
        f"not to be seen, so that a change of them passes. {_REMEDY}"
        for label in golden.optimizers
        if (Basic.RATES, label) not in said and label not in by_hand
    ]
    if (Basic.STEPS, "") not in said:
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
