"""How a told training loop is checked, beside the golden and the trace."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.config import PipelineSpec
from pytest_traincheck.workflow.bundle import Recipe
from pytest_traincheck.workflow.policy import Rules

Keep = Callable[..., tuple[CheckResult, Path]]

SPEC = PipelineSpec("story", "python train.py", seed_arg="--seed {seed}", seeds=(0, 1))
RULES = Rules((), {}, datetime.date(2026, 1, 1))


def recipe(rules: Rules = RULES, spec: PipelineSpec = SPEC) -> Recipe:
    return Recipe(spec, same_spec=True, rules=rules)
