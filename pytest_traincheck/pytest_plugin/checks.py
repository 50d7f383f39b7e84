"""The runs of one pytest session: every pipeline at most once, when its first item needs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pytest

from pytest_traincheck.check.result import CheckResult, RunError
from pytest_traincheck.config import STORED, Config, PipelineSpec
from pytest_traincheck.input_error import InputError
from pytest_traincheck.launch.progress import Progress, quiet
from pytest_traincheck.pytest_plugin.ahead import Ahead
from pytest_traincheck.pytest_plugin.learned import Learned
from pytest_traincheck.pytest_plugin.settings import Settings
from pytest_traincheck.workflow.check import check_stored
from pytest_traincheck.workflow.check_against import check_live
from pytest_traincheck.workflow.engine import Engine, default_engine
from pytest_traincheck.workflow.overlap import Overlap
from pytest_traincheck.workflow.refresh import Relearned, relearn

CheckFunction = Callable[[PipelineSpec], CheckResult]
RelearnFunction = Callable[[PipelineSpec], Relearned]


@dataclass
class Checks:
    """Runs pipelines and remembers what came of them."""

    check: CheckFunction
    learn: RelearnFunction
    learned: Learned
    ahead: Ahead = field(default_factory=lambda: Ahead(Overlap()))
    progress: Progress = quiet
    results: dict[str, CheckResult] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)

    def result(self, spec: PipelineSpec) -> CheckResult:
        """The check of a pipeline; runs it at the first call."""
        if spec.name in self.broken:
            pytest.skip("the check of this pipeline broke; see the first item that failed")
        if spec.name not in self.results:
            try:
                self.results[spec.name] = self.ahead.get(spec, self.check, self.results, self._waiting)
            except Exception as error:
                if not isinstance(error, InputError):
                    # Our own mistake: shown once, and not paid for by a training run for every further item.
                    self.broken.add(spec.name)
                    raise
                self.results[spec.name] = CheckResult(spec.name, errors=(RunError("", str(error)),))
        return self.results[spec.name]

    def relearn(self, spec: PipelineSpec) -> Relearned:
        """The golden of a pipeline, learned again at the first call. Nothing is written before the session ends."""
        if spec.name not in self.learned.goldens:
            try:
                done = self.learned.goldens
                done[spec.name] = self.ahead.get(spec, self.learn, done, self._waiting)
            except InputError as error:
                result = CheckResult(spec.name, errors=(RunError("", str(error)),))
                self.learned.goldens[spec.name] = Relearned(spec.name, Path(), result)
        return self.learned.goldens[spec.name]

    def _waiting(self) -> None:
        self.progress.update(0.0)


CHECKS: pytest.StashKey[Checks] = pytest.StashKey()


def checks_for(config: Config, settings: Settings, learned: Learned, progress: Progress = quiet) -> Checks:
    """The real thing: runs with the probe, as configured."""
    ref = settings.golden or config.golden
    overlap = Overlap.of(settings.jobs or config.jobs or 1)

    @cache
    def engine() -> Engine:
        return replace(default_engine(), overlap=overlap)

    def check(spec: PipelineSpec) -> CheckResult:
        if ref == STORED:
            return check_stored(config, spec, progress, artifacts=settings.artifacts, engine=engine())
        return check_live(
            config, spec, ref, progress, use_cache=not settings.no_cache, artifacts=settings.artifacts, engine=engine()
        )

    def learn(spec: PipelineSpec) -> Relearned:
        return relearn(config, spec, progress=progress, artifacts=settings.artifacts, engine=engine())

    return Checks(check, learn, learned, Ahead(overlap), progress)
