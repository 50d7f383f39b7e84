"""Goldens learned again: what is learned is checked against what is stored, and written when nothing speaks against it.

The runs that are learned from are the candidates of the check, so a refresh trains no more often than learning takes.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pytest_traincheck.check.ran import joined
from pytest_traincheck.check.result import CheckResult, Incident, SideInfo
from pytest_traincheck.check.unsaid import unsaid
from pytest_traincheck.config import Config, PipelineSpec
from pytest_traincheck.frameworks.extensions import FRAMEWORK
from pytest_traincheck.golden import locks, store
from pytest_traincheck.golden.carry import with_former_support
from pytest_traincheck.golden.chance import chance, not_repeating
from pytest_traincheck.golden.diff import GoldenDiff, diff
from pytest_traincheck.golden.diff_text import render_diff
from pytest_traincheck.golden.encode import encode
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.launch.metadata import read_environment
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.sides import open_side, resolve_side, separation
from pytest_traincheck.observing import extensions
from pytest_traincheck.relations import relations
from pytest_traincheck.relations.stored import read_golden
from pytest_traincheck.report.wording import warning
from pytest_traincheck.rules.model import Invariant, Kind
from pytest_traincheck.workflow.audit import laws_broken
from pytest_traincheck.workflow.candidate import check_recorded, keep_artifacts
from pytest_traincheck.workflow.changed_lines import since_golden
from pytest_traincheck.workflow.engine import Engine, default_engine
from pytest_traincheck.workflow.infer import learn_side, runs_of
from pytest_traincheck.workflow.packs import audit_plan
from pytest_traincheck.workflow.plans import plan_of
from pytest_traincheck.workflow.policy import rules_of
from pytest_traincheck.workflow.refresh_intent import Acceptance, Decision, decide
from pytest_traincheck.workflow.runs import GOLDEN, RunFailed, side_info, workspace


@dataclass(frozen=True)
class Relearned:
    """A golden as it was learned now. Nothing is written yet: `files` is what would be.

    `result` has the errors of runs that failed, and else the incidents of the runs that were learned from against the
    stored golden. `diff` is a block for the pull request; empty for a first golden and where the rules say the same.
    """

    pipeline: str
    path: Path
    result: CheckResult
    files: Mapping[Path, bytes] = field(default_factory=dict)
    rules: int = 0
    diff: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """What a reader must know of the golden: that chance may have become law, that it cannot be repeated."""
    change: GoldenDiff | None = None
    """How the rules differ from the former golden's; None for a first golden and where their file stays as it is."""
    learned: tuple[Invariant, ...] = ()
    """The rules as they were learned now."""

    @property
    def changed(self) -> bool:
        """Whether the rules' own file is another."""
        return self.path in self.files


@dataclass(frozen=True)
class Refresh:
    """What a refresh came to; the files are written if, and only if, `decision.may_write`."""

    pipelines: tuple[Relearned, ...]
    decision: Decision


def refresh(
    config: Config,
    specs: Sequence[PipelineSpec],
    ref: str | None = None,
    reason: str = "",
    *,
    acceptance: Acceptance,
    progress: Progress,
    artifacts: Path | None = None,
    engine: Engine | None = None,
    waiting: Callable[[str], None] = lambda _holder: None,
) -> Refresh:
    """Learn pipelines again, from `ref` or the working tree, and store all of them or none.

    Another refresh of the same store is waited for; `waiting` is then told whose. Raises `SideError` for a ref that
    cannot be used, `GoldenError` for a store that cannot be written, and `UnknownIncidentError` for what is to be
    accepted but is not there; nothing is written then.
    """
    names = " ".join(spec.name for spec in specs)
    with locks.refreshing(config.store, f"traincheck refresh {names}", waiting):
        ensure_writable(config.store)
        engine = engine or default_engine()
        progress.expect(sum(runs_of(spec, repeats=engine.repeats) for spec in specs))
        learning = partial(relearn, progress=progress, artifacts=artifacts, engine=engine)
        pipelines = tuple(engine.overlap.each([partial(learning, config, spec, ref, reason) for spec in specs]))
        decision = decide([item.result for item in pipelines], acceptance)
        if decision.may_write:
            write(config.store, pipelines)
    return Refresh(pipelines, decision)


def write(directory: Path, pipelines: Sequence[Relearned]) -> None:
    """Write what was learned to a store whose lock is held, all of it or nothing. Raises `GoldenError`."""
    store.write_files(directory, {path: data for item in pipelines for path, data in item.files.items()}, locked=True)


def relearn(
    config: Config,
    spec: PipelineSpec,
    ref: str | None = None,
    reason: str = "",
    *,
    progress: Progress,
    artifacts: Path | None = None,
    engine: Engine | None = None,
) -> Relearned:
    """Learn one pipeline again and check it against its stored golden, without writing anything to the store.

    Raises `SideError` for a ref that cannot be used and `GoldenError` for numbers that cannot be read.
    """
    engine = engine or default_engine()
    path = store.golden_path(config.store, spec.name)
    old, notes = former(path)
    with ExitStack() as stack:
        space = stack.enter_context(workspace(artifacts, spec.name))
        here = stack.enter_context(open_side(resolve_side(str(config.root), config.root)))
        side = here if ref is None else stack.enter_context(open_side(resolve_side(ref, config.root), spec.link))
        source_root, forbidden = separation(side, here)
        plan = replace(plan_of(config, spec, side, GOLDEN), source_root=source_root, forbidden_roots=forbidden)
        try:
            learned = learn_side(
                plan,
                space,
                spec,
                reason=reason,
                engine=engine,
                progress=progress,
            )
        except RunFailed as failure:
            result = CheckResult(spec.name, errors=(failure.error,), golden=SideInfo(plan.commit, command=plan.command))
            return Relearned(spec.name, path, result, notes=(*notes, *failure.notes))
        result = CheckResult(spec.name)
        if old is not None:
            same_spec = old.spec == spec.fingerprint()
            former_side = SideInfo(old.commit, old.runs, old.environment, str(path), spec.run)
            seeded = learned.runs[: len(spec.seeds)]
            empty = CheckResult(spec.name, golden=former_side, candidate=side_info(plan, seeded, side.path))
            old, more = with_former_numbers(old, path, seeded[0].run_dir)
            notes = (*notes, *more)
            rules = rules_of(config)
            results = [
                check_recorded(run, plan, old, empty, same_spec=same_spec, rules=rules, path=side.path, engine=engine)
                for run in seeded
            ]
            result = since_golden(merged(results), old.commit, path, plan.cwd)
        if engine.audit is not None:
            audit = engine.audit(spec.name, learned.runs[0].trace, audit_plan(config), plan.cwd)
            result = replace(result, warnings=(*result.warnings, *laws_broken(audit)))
        keep_artifacts(space, result, learned.golden)
    return described(path, old, learned.golden, result=result, reason=reason, notes=(*notes, *learned.notes))


def described(
    path: Path, old: Golden | None, new: Golden, *, result: CheckResult, reason: str, notes: tuple[str, ...]
) -> Relearned:
    """What would be written for a new golden, and how it differs from the old one.

    Raises `GoldenError` for a golden that no file can hold.
    """
    if old is not None:
        new = with_former_support(new, old)
    files = store.numbers_of(path, new)
    change: GoldenDiff | None = None
    # A file of a former format is written in today's, though its rules say the same.
    if old is None or reason or not _same_but_for_origin(old, new) or not store.has_content(path, encode(old)):
        files = {**files, **store.rules_of(path, new)}
        change = None if old is None else diff(old, new)
    files = {file: data for file, data in files.items() if not store.has_content(file, data)}
    # That the former golden was learned from too little is no matter any more.
    gone = (warning(item) for item in result.warnings if item.kind in ("coverage", "golden"))
    warnings = (*gone, *chance(new), *not_repeating(new), *unsaid(new), *_left_out(old), *_not_observed(old))
    shown = "" if change is None else render_diff(change)
    rules = new.invariants
    return Relearned(new.pipeline, path, result, files, len(rules), shown, reason, notes, warnings, change, rules)


def former(path: Path) -> tuple[Golden | None, tuple[str, ...]]:
    """The golden that is about to be replaced. One that cannot be read is no reason to refuse the remedy for it."""
    store.finish_interrupted(path.parent)
    store.require_replaceable(path)
    if not path.exists():
        return None, ()
    try:
        return read_golden(path), ()
    except GoldenError as error:
        return None, (f"the former golden could not be read and is replaced: {error}",)


def with_former_numbers(old: Golden, path: Path, run_dir: Path) -> tuple[Golden, tuple[str, ...]]:
    """The golden that is about to be replaced with its numbers for the platform of a run, where they can be read."""
    try:
        return store.with_numbers(old, path, read_environment(run_dir).get("platform", "")), ()
    except GoldenError as error:
        return old, (f"the former numbers could not be read and are replaced: {error}",)


def ensure_writable(directory: Path) -> None:
    """Raise `GoldenError` when no file can be made in a store, before minutes of training are spent for it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=directory, prefix=".traincheck-")
        os.close(handle)
        Path(name).unlink()
    except OSError as error:
        raise locks.cannot_write(directory, error) from error


def merged(results: Sequence[CheckResult]) -> CheckResult:
    """The first of several checks of one pipeline with the incidents that only others have.

    That few rules came up is no error here: it may be why the golden is learned again.
    """
    incidents = list(results[0].incidents)
    for result in results[1:]:
        known = set(map(_decision, incidents))
        incidents += [incident for incident in result.incidents if _decision(incident) not in known]
    ranked = tuple(replace(incident, number=number) for number, incident in enumerate(incidents, start=1))
    return replace(
        results[0], incidents=ranked, errors=(), ran=joined([result.ran for result in results if result.incidents])
    )


def _left_out(old: Golden | None) -> tuple[str, ...]:
    """Rules of the former golden that are lost because nothing here knows how to learn them."""
    counts = Counter(rule.relation for rule in (old.invariants if old is not None else ()))
    lost = {name: number for name, number in counts.items() if name not in relations()}
    return tuple(
        f"{number} rule{'s' * (number != 1)} of the relation {name} {'is' if number == 1 else 'are'} left out, since "
        "no such relation is known here. Install the plug-in that gives it; if a conftest.py gives it, refresh with "
        "`pytest --traincheck-refresh`."
        for name, number in sorted(lost.items())
    )


def _not_observed(old: Golden | None) -> tuple[str, ...]:
    """What the former golden's runs were observed for that nothing here asks for."""
    known = extensions().digests
    lost = [key for key in (old.extensions if old is not None else ()) if key not in known]
    if not lost:
        return ()
    names = ", ".join(f"`{key.removeprefix(FRAMEWORK)}`" for key in lost)
    return (
        f"What a plug-in said of {names} is not known here any more, and rules that rest on it are lost. Install the "
        "plug-in that gives it; if a conftest.py gives it, refresh with `pytest --traincheck-refresh`.",
    )


def _same_but_for_origin(old: Golden, new: Golden) -> bool:
    """Whether only the commit and the reason differ: then the file says everything that is still true."""
    return encode(old) == encode(replace(new, commit=old.commit, reason=old.reason))


def _decision(incident: Incident) -> tuple[str, str]:
    """What is to be decided once for all seeds: a setting that differs between them is decided for each."""
    rule = incident.cause.invariant
    return rule.id, incident.cause.value if rule.kind is Kind.CONFIG else ""
