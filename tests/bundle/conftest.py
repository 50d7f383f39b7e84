"""Bundles of training loops that were told, not trained."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipes import RULES, SPEC, Keep, recipe
from training_story import Loop, Recorder

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.check.result import CheckResult, Commands, SideInfo
from pytest_traincheck.config import PipelineSpec
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.workflow.bundle import BUNDLE, keep_bundle
from pytest_traincheck.workflow.policy import Rules, judge
from pytest_traincheck.workflow.runs import CANDIDATE, Workspace


@pytest.fixture
def keep(recorder: Recorder, tmp_path: Path) -> Keep:
    """Check a loop against a golden and keep what `--artifacts` would: the result, and the place of the bundle."""
    space = Workspace(tmp_path / "kept" / "story", kept=True)

    def check(
        golden: Golden, loop: Loop, rules: Rules = RULES, *, spec: PipelineSpec = SPEC, commands: Commands | None = None
    ) -> tuple[CheckResult, Path]:
        space.path.mkdir(parents=True, exist_ok=True)
        run = recorder.record(loop)
        outcome = check_run(golden, run, same_spec=True)
        target = space.path / CANDIDATE
        if target.exists():
            target.rename(tmp_path / f"former-{run.path.name}")
        run.path.rename(target)
        judged = judge(outcome.verdicts, outcome.incidents, rules)
        sides = SideInfo("c0ffee" * 6, 2, {"torch": "2.13.0"}, "/there", "python train.py")
        result = CheckResult(
            spec.name, judged.verdicts, judged.incidents, golden=sides, candidate=sides, commands=commands
        )
        return keep_bundle(space, result, golden, recipe(rules, spec)), space.path / BUNDLE

    return check
