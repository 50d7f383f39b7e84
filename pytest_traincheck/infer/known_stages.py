"""Rules stay within the stages that golden was seen in."""

from __future__ import annotations

import numpy as np

from pytest_traincheck.infer.precondition import Precondition
from pytest_traincheck.relations import Examples
from pytest_traincheck.rules.conditions import Clause, Condition, Except

STAGE = "stage"
LOOPS = ("train", "eval")


def within_known_stages(
    examples: Examples, precondition: Precondition, *, shown: bool = False
) -> tuple[Condition, ...]:
    """The conditions, and one more where golden only ever trained or only ever evaluated.

    Nothing was learned of the other stage then, so a validation that is added later breaks no rule. Of forward passes
    in set-up a rule speaks only where it says so: `shown` tells that there are some among the examples.
    """
    conditions = precondition.conditions
    column = examples.context.get(STAGE)
    if column is None or any(_speaks_of_stage(condition) for condition in conditions):
        return conditions
    seen = {column.values[code] for code in np.unique(column.codes).tolist()}
    if sum(stage in seen for stage in LOOPS) != 1 and not shown:
        return conditions
    return (Clause(STAGE, tuple(sorted(seen))), *conditions)


def _speaks_of_stage(condition: Condition) -> bool:
    if isinstance(condition, Except):
        return any(part.field == STAGE for part in condition.parts)
    return condition.field == STAGE
