"""A golden that is not stored but learned for a check, and what a side of the same pipeline is against it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pytest_traincheck.check.result import CheckResult, SideInfo
from pytest_traincheck.config import Config, PipelineSpec
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.workflow.candidate import check_candidate
from pytest_traincheck.workflow.engine import Engine
from pytest_traincheck.workflow.infer import Learned
from pytest_traincheck.workflow.policy import rules_of
from pytest_traincheck.workflow.runs import Recorded, RunFailed, SidePlan, Workspace, mean_seconds, side_info


@dataclass(frozen=True)
class Obtained:
    """A golden and where it came from. Seconds are those of learning it, 0.0 when it came from the cache."""

    golden: Golden
    side: SideInfo
    golden_run_s: float = 0.0
    infer_s: float = 0.0
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(learned: Learned, plan: SidePlan, path: Path) -> Obtained:
        """What was learned just now, of the tree at `path`."""
        side = side_info(plan, learned.runs, path)
        return Obtained(learned.golden, side, mean_seconds(learned.runs), learned.seconds, learned.notes)


def check_against(
    obtained: Obtained,
    plan: SidePlan,
    space: Workspace,
    *,
    config: Config,
    spec: PipelineSpec,
    path: Path,
    engine: Engine,
    progress: Progress,
    made: Recorded | RunFailed | None = None,
) -> CheckResult:
    """Run a configured pipeline once, with its first seed, in the tree at `path`, unless that was `made` already, and
    check it.
    """
    result = check_candidate(
        plan,
        space,
        obtained.golden,
        seed=spec.seeds[0],
        same_spec=True,
        rules=rules_of(config),
        path=path,
        golden_side=obtained.side,
        engine=engine,
        progress=progress,
        made=made,
    )
    timing = replace(result.timing, golden_run_s=obtained.golden_run_s, infer_s=obtained.infer_s)
    return replace(result, timing=timing)
