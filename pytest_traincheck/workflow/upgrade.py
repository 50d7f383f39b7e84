"""A library upgrade: golden and candidate code with old and new libraries, to tell which of the two broke what."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pytest_traincheck.check.attribution import Cause, Cell, Code, Libraries, attribute, last_cell, regrouped
from pytest_traincheck.check.library_call import LibraryCall, library_call
from pytest_traincheck.check.result import CheckResult, SideInfo
from pytest_traincheck.config import STORED, Config, PipelineSpec
from pytest_traincheck.launch.changes import code_differs
from pytest_traincheck.launch.git import find_commit, find_repository
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.sides import CheckedOutSide, SideSource, open_side, resolve_side, separation
from pytest_traincheck.report.upgrade.result import UpgradeResult, VersionRow
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.workflow.candidate import keep_artifacts
from pytest_traincheck.workflow.changed_lines import between_sides
from pytest_traincheck.workflow.check_learned import Obtained, check_against
from pytest_traincheck.workflow.engine import Engine, default_engine
from pytest_traincheck.workflow.infer import learn_side, runs_of
from pytest_traincheck.workflow.last_check import remember
from pytest_traincheck.workflow.live_golden import LiveGolden, obtain
from pytest_traincheck.workflow.next_steps import with_upgrade_commands
from pytest_traincheck.workflow.plans import plan_of
from pytest_traincheck.workflow.runs import (
    CANDIDATE,
    GOLDEN,
    RunFailed,
    SidePlan,
    Workspace,
    workspace,
)
from pytest_traincheck.workflow.upgrade_environments import Environments


def golden_ref(config: Config, asked: str | None) -> str:
    """Which code is golden: what was asked for, the ref of the configuration, HEAD, or the directory itself."""
    if asked:
        return asked
    if config.golden != STORED:
        return config.golden
    repository = find_repository(config.root)
    has_commit = repository is not None and find_commit(repository.top, "HEAD") is not None
    return "HEAD" if has_commit else str(config.root)


def upgrade(
    config: Config,
    spec: PipelineSpec,
    environments: Environments,
    ref: str,
    progress: Progress,
    *,
    use_cache: bool = True,
    artifacts: Path | None = None,
    engine: Engine | None = None,
) -> UpgradeResult:
    """Learn from golden code with old libraries and check the other combinations against it.

    Where the code does not differ it runs in place, and the new libraries are the only other combination. Without
    `use_cache` the golden of a commit is learned again, whatever is kept of it.
    Raises `SideError` for a ref that cannot be used.
    """
    engine = engine or default_engine()
    with ExitStack() as stack:
        space = stack.enter_context(workspace(artifacts, spec.name))
        candidate = stack.enter_context(open_side(resolve_side(str(config.root), config.root)))
        source = resolve_side(ref, config.root)
        differs = code_differs(source.commit if source.is_ref else source.directory, candidate.path, config.store)
        golden = stack.enter_context(open_side(source, spec.link)) if differs else candidate
        check = _Upgrade(config, spec, environments, golden, candidate, space, engine, progress)
        found = check.run(source if differs and source.is_ref else None, differs, use_cache)
    if not found.cells:
        return found
    # The same words mean the same tomorrow, when HEAD has moved on.
    code = source.commit[:12] if source.is_ref else ref if ref != str(config.root) else ""
    last = with_upgrade_commands(found.last, config, environments.options, code)
    remember(config, last)
    return found.with_last(last)


@dataclass(frozen=True)
class _Upgrade:
    config: Config
    spec: PipelineSpec
    environments: Environments
    golden: CheckedOutSide
    candidate: CheckedOutSide
    space: Workspace
    engine: Engine
    progress: Progress

    def run(self, commit: SideSource | None, differs: bool, use_cache: bool) -> UpgradeResult:
        empty = UpgradeResult(
            pipeline=self.spec.name,
            reference=CheckResult(self.spec.name),
            rules=0,
            cells=(),
            calls=(),
            versions=tuple(
                VersionRow(change.name, change.old, change.new, change.asked) for change in self.environments.changes
            ),
            old_python=str(self.environments.old.python),
            new_python=str(self.environments.new.python),
            notes=self.environments.notes,
        )
        try:
            learned = self._learn() if commit is None else self._obtain(commit, use_cache)
        except RunFailed as failure:
            plan = self._plan(Code.GOLDEN, Libraries.OLD)
            side = SideInfo(plan.commit, path=str(self.golden.path), command=plan.command)
            reference = CheckResult(self.spec.name, errors=(failure.error,), golden=side, notes=failure.notes)
            return replace(empty, reference=reference)
        wanted = [(Code.GOLDEN, Libraries.NEW)]
        if differs:
            wanted += [(Code.CANDIDATE, Libraries.OLD), (Code.CANDIDATE, Libraries.NEW)]
        self.progress.expect(len(wanted))
        tasks = [partial(self._cell, learned, code, libraries) for code, libraries in wanted]
        cells = _distinguished(tuple(self.engine.overlap.each(tasks)))
        return replace(
            empty,
            reference=CheckResult(self.spec.name, golden=learned.side),
            rules=len(learned.golden.invariants),
            cells=cells,
            calls=self._calls(cells),
            notes=(*empty.notes, *learned.notes),
        )

    def _learn(self) -> Obtained:
        """Of the tree as it lies there, which no cache can know."""
        plan = self._plan(Code.GOLDEN, Libraries.OLD)
        self.progress.expect(runs_of(self.spec, repeats=self.engine.repeats))
        learned = learn_side(plan, self.space, self.spec, engine=self.engine, progress=self.progress)
        return Obtained.of(learned, plan, self.golden.path)

    def _obtain(self, commit: SideSource, use_cache: bool) -> Obtained:
        wanted = LiveGolden(self.config, self.spec, commit, use_cache)
        return obtain(wanted, self.progress, space=self.space, engine=self.engine)

    def _cell(self, learned: Obtained, code: Code, libraries: Libraries) -> Cell:
        plan = self._plan(code, libraries)
        side = self._side(code)
        space = Workspace(self.space.path / _folder(code, libraries), self.space.kept)
        result = check_against(
            learned,
            plan,
            space,
            # Other libraries may draw other numbers: that is said, and no reason to stay with the old ones.
            config=replace(self.config, strict=False),
            spec=self.spec,
            path=side.path,
            engine=self.engine,
            progress=self.progress,
        )
        result = between_sides(result, self.golden, side, plan.cwd)
        space.path.mkdir(parents=True, exist_ok=True)
        keep_artifacts(space, result, learned.golden)
        return Cell(code, libraries, result)

    def _calls(self, cells: Sequence[Cell]) -> tuple[LibraryCall | None, ...]:
        last = last_cell(cells)
        if not last.result.incidents:
            return ()
        run_dir = self.space.path / _folder(last.code, last.libraries) / CANDIDATE
        try:
            run = self.engine.load_run(run_dir)
        except TraceError:
            run = None
        cwd = self._side(last.code).path / self.spec.cwd
        modules = self.environments.modules()
        return tuple(library_call(incident, run, modules, cwd) for incident in last.result.incidents)

    def _side(self, code: Code) -> CheckedOutSide:
        return self.golden if code is Code.GOLDEN else self.candidate

    def _plan(self, code: Code, libraries: Libraries) -> SidePlan:
        side, other = self._side(code), self._side(Code.CANDIDATE if code is Code.GOLDEN else Code.GOLDEN)
        source_root, forbidden = separation(side, other)
        installation = self.environments.old if libraries is Libraries.OLD else self.environments.new
        reference = code is Code.GOLDEN and libraries is Libraries.OLD
        return replace(
            plan_of(
                self.config, self.spec, side, GOLDEN if reference else f"{libraries.value}-libraries, {code.value}-code"
            ),
            python=str(installation.python),
            source_root=source_root,
            forbidden_roots=forbidden,
        )


def _distinguished(cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """The cells; in the last, what library and code broke stands apart, without changed lines beside the library's."""
    result = regrouped(cells)
    cells = tuple(replace(cell, result=result) if cell is last_cell(cells) else cell for cell in cells)
    last, causes = last_cell(cells), attribute(cells).causes
    incidents = tuple(
        replace(incident, diff=None) if cause is Cause.LIBRARY else incident
        for incident, cause in zip(last.result.incidents, causes, strict=True)
    )
    rest = tuple(cell for cell in cells if cell is not last)
    return (*rest, replace(last, result=replace(last.result, incidents=incidents)))


def _folder(code: Code, libraries: Libraries) -> str:
    return f"{libraries.value}-libraries-{code.value}-code"
