"""The `traincheck` fixture: training inside an ordinary test, recorded in this process and checked."""

from __future__ import annotations

import os
import random
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from pytest_traincheck.check.result import CheckResult, Outcome, SideInfo
from pytest_traincheck.config import DEFAULT_STORE, ConfigError, PipelineSpec, load
from pytest_traincheck.golden import store
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import IN_PROCESS, Golden
from pytest_traincheck.launch.git import describe_head, place_in_repository
from pytest_traincheck.launch.metadata import read_environment
from pytest_traincheck.launch.worktree import sweep_temporary
from pytest_traincheck.observing import extensions
from pytest_traincheck.plugins import PluginError, in_session
from pytest_traincheck.pytest_plugin import wording
from pytest_traincheck.pytest_plugin.keeping import kept_place
from pytest_traincheck.pytest_plugin.learned import PROPERTY, learned_of, refusal
from pytest_traincheck.pytest_plugin.selection import COVERAGE
from pytest_traincheck.pytest_plugin.settings import Settings, settings_of
from pytest_traincheck.relations.stored import read_golden
from pytest_traincheck.report.wording import warning as warning_text
from pytest_traincheck.scratch import scratch_directory
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.workflow.bundle import Recipe, keep_bundle
from pytest_traincheck.workflow.candidate import keep_artifacts
from pytest_traincheck.workflow.changed_lines import since_golden
from pytest_traincheck.workflow.engine import Engine, default_engine
from pytest_traincheck.workflow.next_steps import fixture_commands
from pytest_traincheck.workflow.policy import NO_RULES, Rules, judge, rules_of
from pytest_traincheck.workflow.refresh import Relearned, described, former, merged, with_former_numbers
from pytest_traincheck.workflow.refresh_intent import is_meant
from pytest_traincheck.workflow.runs import CANDIDATE, ArtifactsError, Workspace
from pytest_traincheck.workflow.sufficiency import cautions, vacuous

if TYPE_CHECKING:
    from pytest_traincheck.trace import Run


class CoverageWarning(pytest.PytestWarning):
    """Training inside of a test could not be compared with golden's, though its seed is the same."""


@dataclass(frozen=True)
class _Recorded:
    """One run inside a test; the trace is read at once, since its directory goes with the test."""

    trace: Run
    run_dir: Path
    seed: int | None


@dataclass
class Traincheck:
    """What a test gets. Goldens are `STORE/NAME.jsonl`, like those of configured pipelines."""

    store: Path
    rules: Rules
    settings: Settings
    directory: Path
    item: pytest.Item
    engine: Engine
    _runs: dict[str, list[_Recorded]] = field(default_factory=dict)
    _count: int = 0
    _broken: bool = False

    @contextmanager
    def pipeline(self, name: str, seed: int | None = None) -> Iterator[None]:
        """Record the training in the block and check it against the golden `name` when the block ends.

        With a `seed`, the generators of `random`, torch and (when imported) numpy are seeded first. The test fails
        with the incidents when rules are broken, and with the remedy when there is no golden. An exception of the
        block goes on unchanged. With `--traincheck-refresh` the runs of one name are learned from together at the end
        of the test.
        """
        learned_of(self.item.config).used.add(name)
        try:
            wanted = extensions()
        except PluginError as error:
            _fail(str(error))
        golden = None if self.settings.refresh else self._golden(name)
        space = self._space(name)
        run_dir = space.path / CANDIDATE
        from pytest_traincheck.probe import observe

        if seed is not None:
            _seed_everything(seed)
        try:
            with observe(run_dir, seed=seed, extensions=wanted):
                yield
        except BaseException:
            self._broken = True
            raise
        try:
            trace = self.engine.load_run(run_dir)
        except TraceError as error:
            _fail(f"{name}: {error}")
        recorded = _Recorded(trace, run_dir, seed)
        if golden is None:
            self._runs.setdefault(name, []).append(recorded)
            return
        try:
            platform = read_environment(run_dir).get("platform", "")
            golden = store.with_numbers(golden, store.golden_path(self.store, name), platform)
        except GoldenError as error:
            _fail(str(error))
        result = self._checked(name, golden, recorded)
        same_spec = golden.spec == in_process_spec(name)
        spec = PipelineSpec(name, f"pytest {shlex.quote(self.item.nodeid)}", seeds=() if seed is None else (seed,))
        result = keep_bundle(space, result, golden, Recipe(spec, same_spec, self.rules), self.engine)
        keep_artifacts(space, result, golden)
        if result.errors:
            _fail(f"{name}: {wording.errors_text(result)}")
        if result.outcome is Outcome.FAIL:
            _fail(wording.in_process_text(result))
        for warning in result.warnings:
            if warning.kind == COVERAGE:
                self.item.warn(CoverageWarning(f"{name}: {warning_text(warning)}"))

    def _space(self, name: str) -> Workspace:
        """Where a run is recorded: with the other artifacts when these are kept, else below the test's own directory.

        A refresh learns from all runs of a name at the end, so none of them may take the place of another.
        """
        if self.settings.artifacts is not None and not self.settings.refresh:
            try:
                return kept_place(self.settings.artifacts, name, self.item.nodeid)
            except ArtifactsError as error:
                _fail(str(error))
        path = self.directory / f"run{self._count}"
        self._count += 1
        (path / CANDIDATE).mkdir(parents=True)
        return Workspace(path, kept=False)

    def _checked(self, name: str, golden: Golden, run: _Recorded) -> CheckResult:
        outcome = self.engine.check_run(golden, run.trace, same_spec=golden.spec == in_process_spec(name))
        judged = judge(outcome.verdicts, outcome.incidents, self.rules)
        path = store.golden_path(self.store, name)
        result = CheckResult(
            name,
            judged.verdicts,
            judged.incidents,
            golden=SideInfo(golden.commit, golden.runs, golden.environment, str(path)),
            candidate=SideInfo(
                runs=1,
                environment=read_environment(run.run_dir),
                path=str(Path.cwd()),
                directory=place_in_repository(Path.cwd()),
            ),
            modules=outcome.modules,
            portraits=outcome.portraits,
            renamed=outcome.renamed,
            errors=() if judged.incidents else vacuous(judged.verdicts),
            coverage=outcome.coverage,
            warnings=(*cautions(golden, outcome.coverage, self.rules), *outcome.warnings),
        )
        if result.outcome is not Outcome.FAIL:
            return result
        test = as_typed(self.item)
        candidate = replace(result.candidate, commit=describe_head(path.parent))
        result = replace(result, candidate=candidate, commands=fixture_commands(result, test))
        return since_golden(result, golden.commit, path, Path.cwd())

    def _golden(self, name: str) -> Golden:
        try:
            path = store.golden_path(self.store, name)
            if not path.exists():
                raise GoldenError(
                    f"{name}: there is no golden at {path}.\n"
                    f"Learn it and commit the file: pytest --traincheck-refresh {shlex.quote(as_typed(self.item))}"
                )
            return read_golden(path)
        except (GoldenError, PluginError) as error:
            message = str(error)
        # Outside the handler: the three parts of the message say all, and a chained error would say them twice.
        pytest.fail(message, pytrace=False)

    def learn(self) -> None:
        """Learn from everything that was recorded for a refresh; nothing when a block raised.

        The test fails for incidents against the stored golden that nobody said were meant. What was learned is written
        when the session ends, with what all others have learned.
        """
        if self._broken:
            return
        for name, runs in self._runs.items():
            self.item.user_properties.append((PROPERTY, name))
            try:
                learned = self._learned(name, runs)
            except (GoldenError, PluginError) as error:
                _fail(str(error))
            learned_of(self.item.config).goldens[name] = learned
            acceptance = self.settings.acceptance
            refused = [incident for incident in learned.result.incidents if not is_meant(incident, acceptance)]
            if refused:
                _fail(refusal(name, refused, acceptance, (as_typed(self.item),)))

    def _learned(self, name: str, runs: Sequence[_Recorded]) -> Relearned:
        path = store.golden_path(self.store, name)
        old, notes = former(path)
        result = CheckResult(name)
        if old is not None:
            old, more = with_former_numbers(old, path, runs[0].run_dir)
            notes = (*notes, *more)
            result = merged([self._checked(name, old, run) for run in runs])
        golden = self.engine.learn(
            [run.trace for run in runs],
            pipeline=name,
            spec=in_process_spec(name),
            commit="",
            environment=read_environment(runs[0].run_dir),
            seeds=tuple(dict.fromkeys(run.seed for run in runs if run.seed is not None)),
            reason="",
        )
        return described(path, old, golden, result=result, reason="", notes=notes)


def as_typed(item: pytest.Item) -> str:
    """The node id, which begins at pytest's root, as it is typed where pytest was started."""
    path, *names = str(item.nodeid).split("::")
    relative = os.path.relpath(item.config.rootpath / path, item.config.invocation_params.dir)
    return "::".join([relative, *names])


def in_process_spec(name: str) -> str:
    """Identifies what was run, as `PipelineSpec.fingerprint` does for commands."""
    return f"{IN_PROCESS}{name}"


def use(request: pytest.FixtureRequest) -> Iterator[Traincheck]:
    """The fixture's body: set up, hand out, learn at the end when refreshing."""
    settings = settings_of(request.config)
    root = request.config.rootpath
    try:
        config = load(root)
    except ConfigError:
        # The fixture needs no configuration; where there is a broken one, `--traincheck` complains about it.
        directory, rules = root / DEFAULT_STORE, NO_RULES
    else:
        directory, rules = config.store, rules_of(config)
    rules = replace(rules, strict=rules.strict or settings.strict)
    sweep_temporary()
    with scratch_directory() as temporary, in_session(request.config.pluginmanager):
        fixture = Traincheck(directory, rules, settings, temporary, request.node, default_engine())
        yield fixture
        fixture.learn()


def _seed_everything(seed: int) -> None:
    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def _fail(text: str) -> NoReturn:
    pytest.fail(text, pytrace=False)
