"""How the runs of a configured pipeline are started, on either side."""

from __future__ import annotations

from pytest_traincheck.config import Config, PipelineSpec
from pytest_traincheck.launch.sides import CheckedOutSide
from pytest_traincheck.workflow.runs import GOLDEN, SidePlan


def plan_of(config: Config, spec: PipelineSpec, side: CheckedOutSide, name: str) -> SidePlan:
    """The plan of a side, called `name`, whose tree is there."""
    own = config.golden_python if name == GOLDEN else config.candidate_python
    return SidePlan(
        side=name,
        command=spec.run,
        cwd=side.path / spec.cwd,
        commit=side.commit,
        python=own or config.python,
        seed_arg=spec.seed_arg,
        seed_env=spec.seed_env,
        seed_by=spec.seed_by,
        steps=spec.steps,
        env=spec.env,
        timeout=spec.timeout,
        source_root=side.root,
        watched=side.watched,
        tree=side.tree,
        alone=spec.alone,
    )
