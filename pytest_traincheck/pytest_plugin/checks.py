"""The runs of one pytest session: every pipeline at most once, when its first item needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_traincheck.check.result import CheckResult, RunError
from pytest_traincheck.config import STORED, Config, PipelineSpec
from pytest_traincheck.launch.termination import exit_on_termination
from pytest_traincheck.pytest_plugin.learned import Learned
from pytest_traincheck.pytest_plugin.settings import Settings
from pytest_traincheck.workflow import INPUT_ERRORS, Relearned, check_live, check_stored, quiet, relearn

CheckFunction = Callable[[PipelineSpec], CheckResult]
RelearnFunction = Callable[[PipelineSpec], Relearned]


@dataclass
class Checks:
    """Runs pipelines and remembers what came of them."""

    check: CheckFunction
    learn: RelearnFunction
    learned: Learned
    results: dict[str, CheckResult] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)

    def result(self, spec: PipelineSpec) -> CheckResult:
        """The check of a pipeline; runs it at the first call."""
        if spec.name in self.broken:
            pytest.skip("the check of this pipeline broke; see the first item that failed")
        if spec.name not in self.results:
            try:
                with _cancellable():
                    self.results[spec.name] = self.check(spec)
            except Exception as error:
                if not isinstance(error, INPUT_ERRORS):
                    # Our own mistake: shown once, and not paid for by a training run for every further item.
                    self.broken.add(spec.name)
                    raise
                self.results[spec.name] = CheckResult(spec.name, errors=(RunError("", str(error)),))
        return self.results[spec.name]

    def relearn(self, spec: PipelineSpec) -> Relearned:
        """The golden of a pipeline, learned again at the first call. Nothing is written before the session ends."""
        if spec.name not in self.learned.goldens:
            try:
                with _cancellable():
                    self.learned.goldens[spec.name] = self.learn(spec)
            except INPUT_ERRORS as error:
                result = CheckResult(spec.name, errors=(RunError("", str(error)),))
                self.learned.goldens[spec.name] = Relearned(spec.name, Path(), result)
        return self.learned.goldens[spec.name]


@contextmanager
def _cancellable() -> Iterator[None]:
    """End the session in good order when the job is cancelled: pytest itself dies of SIGTERM, and the runs would stay.

    A `SystemExit` inside an item would count as its failure, and the session would go on.
    """
    try:
        with exit_on_termination():
            yield
    except SystemExit as leaving:
        pytest.exit("traincheck: terminated while a pipeline was running", returncode=int(leaving.code or 1))


CHECKS: pytest.StashKey[Checks] = pytest.StashKey()


def checks_for(config: Config, settings: Settings, learned: Learned) -> Checks:
    """The real thing: runs with the probe, as configured."""
    ref = settings.golden or config.golden

    def check(spec: PipelineSpec) -> CheckResult:
        if ref == STORED:
            return check_stored(config, spec, quiet, artifacts=settings.artifacts)
        return check_live(config, spec, ref, quiet, use_cache=not settings.no_cache, artifacts=settings.artifacts)

    def learn(spec: PipelineSpec) -> Relearned:
        return relearn(config, spec, progress=quiet, artifacts=settings.artifacts)

    return Checks(check, learn, learned)
