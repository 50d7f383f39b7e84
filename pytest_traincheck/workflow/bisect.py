"""Finds the commit that brought an incident: the golden of a good commit, checked on the commits up to a bad one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pytest_traincheck.check.result import CheckResult, RunError, Verdict, Violation
from pytest_traincheck.config import Config, PipelineSpec
from pytest_traincheck.launch.bisection import BisectError, Bisection, Commit, Mark, bisection, describe_commit
from pytest_traincheck.launch.git import git
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.sides import SideError, SideSource, open_side, resolve_side, separation
from pytest_traincheck.report.bisect import BisectReport, Tested, incident_of
from pytest_traincheck.text import one_line, plural
from pytest_traincheck.workflow.changed_lines import since_golden
from pytest_traincheck.workflow.check_learned import Obtained, check_against
from pytest_traincheck.workflow.engine import Engine, default_engine
from pytest_traincheck.workflow.last_check import remember
from pytest_traincheck.workflow.live_golden import LiveGolden, obtain
from pytest_traincheck.workflow.next_steps import with_commands_at
from pytest_traincheck.workflow.plans import plan_of
from pytest_traincheck.workflow.runs import CANDIDATE, workspace

Tell = Callable[[Tested | str], None]
"""Is given every commit as it was tested, and lines in between."""


@dataclass(frozen=True)
class BisectRequest:
    """Two refs of the repository that holds the configuration, and a pipeline of it."""

    config: Config
    spec: PipelineSpec
    good: str
    bad: str
    use_cache: bool = True


class EndFailed(Exception):
    """The pipeline does not run at the good or the bad commit, so there is nothing to go by; holds the result."""

    def __init__(self, result: CheckResult) -> None:
        super().__init__(result.errors[0].message)
        self.result = result


def bisect(request: BisectRequest, progress: Progress, tell: Tell, engine: Engine | None = None) -> BisectReport:
    """Find the first bad commit.

    Raises `SideError` for refs that cannot be used, `BisectError` when good is bad already or bad is not bad,
    `RunFailed` when no golden can be learned at the good commit, and `EndFailed` when a run fails at either end.
    """
    search = _Search(request, progress, tell, engine or default_engine())
    return search.run()


@dataclass
class _Search:
    request: BisectRequest
    progress: Progress
    tell: Tell
    engine: Engine

    def run(self) -> BisectReport:
        good, bad = (self._commit(ref) for ref in (self.request.good, self.request.bad))
        repository = self._repository(good)
        ends = describe_commit(repository, good.commit), describe_commit(repository, bad.commit)
        with bisection(repository, good.commit, bad.commit) as search:
            wanted = LiveGolden(self.request.config, self.request.spec, good, self.request.use_cache)
            golden = obtain(wanted, self.progress, engine=self.engine)
            first, last, sought = self._ends(good, bad, ends, golden)
            tested = [first, last]
            left, steps = search.remaining()
            self.progress.expect(steps + (left > 1))
            self.tell(f"{plural(max(0, left - 1), 'commit')} between them, about {steps + (left > 1)} to test")
            while commit := search.next():
                described = describe_commit(repository, commit)
                found = _judged(described, self._check(good, described, golden), sought)
                tested.append(found)
                self.tell(found)
                self._require_good_base(search, found, ends)
                search.mark(commit, found.mark)
            return self._report(search, ends, sought.invariant.id, tuple(tested), golden)

    def _commit(self, ref: str) -> SideSource:
        source = resolve_side(ref, self.request.config.root)
        if not source.is_ref:
            raise SideError(f"`{ref}` is a directory, and a bisect goes from commit to commit. Give a git ref.")
        return source

    def _repository(self, source: SideSource) -> Path:
        assert source.repository is not None, "a ref has a repository"
        return source.repository

    def _ends(
        self, good: SideSource, bad: SideSource, ends: tuple[Commit, Commit], golden: Obtained
    ) -> tuple[Tested, Tested, Violation]:
        """Both ends, checked: a bisect between commits that are not what they are called would name any commit."""
        self.progress.expect(len(ends))
        with closing(self._both(good, bad, ends, golden)) as checks:
            return self._judged_ends(checks, ends, golden)

    def _both(
        self, good: SideSource, bad: SideSource, ends: tuple[Commit, Commit], golden: Obtained
    ) -> Generator[CheckResult, None, None]:
        tasks = [partial(self._check, good, ends[0], golden), partial(self._check, bad, ends[1], golden)]
        return self.engine.overlap.each(tasks)

    def _judged_ends(
        self, checks: Iterator[CheckResult], ends: tuple[Commit, Commit], golden: Obtained
    ) -> tuple[Tested, Tested, Violation]:
        clean = next(checks)
        _require_run(clean)
        if clean.incidents:
            raise BisectError(
                f"The good commit {ends[0].short} has incidents against its own golden, so it is bad already, or the "
                f"pipeline is not the same twice: {one_line(clean.incidents[0].cause.title)} Choose an older good "
                "commit, or make the pipeline depend on its seed alone."
            )
        first = Tested(ends[0], Mark.GOOD, f"{plural(len(golden.golden.invariants), 'rule')} learned")
        self.tell(first)
        broken = next(checks)
        _require_run(broken)
        if not broken.incidents:
            raise BisectError(
                f"The bad commit {ends[1].short} breaks no rule of the golden of {ends[0].short}, so there is nothing "
                "to look for. If something is wrong there, it is wrong in the good commit too (choose an older one), "
                "or no rule sees it."
            )
        last = Tested(ends[1], Mark.BAD, broken.incidents[0].cause.title, broken)
        self.tell(last)
        return first, last, broken.incidents[0].cause

    def _check(self, good: SideSource, commit: Commit, golden: Obtained) -> CheckResult:
        """A commit, run in a worktree of its own."""
        config, spec = self.request.config, self.request.spec
        source = replace(good, text=commit.short, commit=commit.hash)
        with ExitStack() as stack:
            here = stack.enter_context(open_side(resolve_side(str(config.root), config.root)))
            space = stack.enter_context(workspace(None, spec.name))
            try:
                side = stack.enter_context(open_side(source, spec.link))
            except SideError as error:
                # Older than the directory of the configuration: as good as a pipeline that does not run.
                return CheckResult(spec.name, errors=(RunError(CANDIDATE, str(error)),))
            source_root, forbidden = separation(side, here)
            plan = plan_of(config, spec, side, CANDIDATE)
            plan = replace(plan, source_root=source_root, forbidden_roots=forbidden)
            result = check_against(
                golden,
                plan,
                space,
                config=config,
                spec=spec,
                path=side.path,
                engine=self.engine,
                progress=self.progress,
            )
            # What this commit changed, not what has changed since the good one.
            parent = commit.parents[0] if commit.parents else commit.hash
            return since_golden(result, parent, side.path, plan.cwd)

    def _require_good_base(self, search: Bisection, found: Tested, ends: tuple[Commit, Commit]) -> None:
        """Where good is not an ancestor of bad, git begins with the commit that both come from."""
        if found.mark is not Mark.BAD:
            return
        base = git(search.tree, "merge-base", ends[0].hash, ends[1].hash)
        if base == found.commit.hash and base != ends[0].hash:
            raise BisectError(
                f"The incident is in {found.commit.short} already, the last commit that {ends[0].short} and "
                f"{ends[1].short} have in common: it went away on the way to the good one. "
                f"Choose a good commit before {found.commit.short}."
            )

    def _report(
        self,
        search: Bisection,
        ends: tuple[Commit, Commit],
        rule: str,
        tested: tuple[Tested, ...],
        golden: Obtained,
    ) -> BisectReport:
        first = next((item for item in tested if item.commit.hash == search.first_bad), None)
        if first is not None and first.result is not None:
            first = replace(first, result=self._remembered(first.result, rule, ends[0].short, first.commit.short))
        possible = tuple(describe_commit(search.tree, commit) for commit in search.possible)
        return BisectReport(self.request.spec.name, rule, *ends, tested, first, possible, golden.notes)

    def _remembered(self, result: CheckResult, rule: str, good: str, commit: str) -> CheckResult:
        """The result of the first bad commit, with commands about the incident that was looked for."""
        incident, config = incident_of(result, rule), self.request.config
        alone = replace(result, incidents=(incident,)) if incident is not None else result
        found = replace(result, commands=with_commands_at(alone, config, good, commit).commands)
        remember(config, found)
        return found


def _require_run(result: CheckResult) -> None:
    if result.errors:
        raise EndFailed(result)


def _judged(commit: Commit, result: CheckResult, sought: Violation) -> Tested:
    """What a commit is, as far as the rule tells that is broken at the bad commit."""
    rule = sought.invariant.id
    if result.errors:
        return Tested(commit, Mark.SKIP, one_line(result.errors[0].message), result)
    verdict = next((item for item in result.verdicts if item.invariant.id == rule), None)
    if verdict is not None and verdict.verdict is Verdict.VIOLATED:
        incident = incident_of(result, rule)
        title = incident.cause.title if incident is not None else ""
        return Tested(commit, Mark.BAD, title if title != sought.title else "", result)
    if verdict is None or verdict.verdict in (Verdict.NOT_TRIGGERED, Verdict.NOT_OBSERVABLE):
        reason = verdict.reason if verdict is not None and verdict.reason else "it did not come up"
        return Tested(commit, Mark.SKIP, f"the broken rule cannot be judged here: {reason}", result)
    other = f"another incident: {result.incidents[0].cause.title}" if result.incidents else ""
    return Tested(commit, Mark.GOOD, other, result)
