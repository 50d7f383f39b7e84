"""A candidate whose run is ended at its first incident: what comes after it would take time and say no more."""

from __future__ import annotations

import time
from pathlib import Path

from pytest_traincheck.check.result import CheckResult, Incident, SideInfo
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.workflow.against import Against
from pytest_traincheck.workflow.engine import Engine
from pytest_traincheck.workflow.runs import CANDIDATE, Recorded, SidePlan, Workspace, record
from pytest_traincheck.workflow.watching import Watch


class _Incident(Exception):
    """There is one; never seen outside of this module."""


def record_until_incident(
    plan: SidePlan,
    space: Workspace,
    against: Against,
    *,
    seed: int | None,
    path: Path,
    engine: Engine,
    progress: Progress,
    not_needed: Looks = NOTHING,
) -> Recorded | CheckResult:
    """The run, where it came to its end; else what was found until it was ended. Raises what `record` raises."""

    def leave(_incident: Incident, _steps: int) -> None:
        raise _Incident

    begun = time.monotonic()
    watch = Watch(space.path / CANDIDATE, against, leave)
    try:
        return record(
            plan,
            space,
            CANDIDATE,
            seed=seed,
            engine=engine,
            progress=progress,
            attend=watch.look,
            not_needed=not_needed,
        )
    except _Incident:
        candidate = SideInfo(plan.commit, path=str(path), command=plan.command)
        return watch.result(candidate, seconds=time.monotonic() - begun, stopped=True)
    finally:
        watch.close()
