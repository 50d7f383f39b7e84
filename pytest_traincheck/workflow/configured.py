"""Configured pipelines: check against the stored golden, and refresh."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_traincheck.check.result import CheckResult, RunError, SideInfo
from pytest_traincheck.config import STORED, Config, PipelineSpec
from pytest_traincheck.golden import store
from pytest_traincheck.golden.diff import diff, render_diff
from pytest_traincheck.golden.encode import encode
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.sides import open_side, resolve_side, separation
from pytest_traincheck.workflow.bundling import Recipe, keep_bundle
from pytest_traincheck.workflow.changed_lines import since_golden
from pytest_traincheck.workflow.engine import Engine, default_engine
from pytest_traincheck.workflow.judging import check_candidate, keep_artifacts, rules_of
from pytest_traincheck.workflow.last_check import remember
from pytest_traincheck.workflow.learning import learn_side
from pytest_traincheck.workflow.next_steps import with_commands
from pytest_traincheck.workflow.plans import plan_of
from pytest_traincheck.workflow.runs import CANDIDATE, GOLDEN, RunFailed, workspace


@dataclass(frozen=True)
class RefreshReport:
    """What a refresh did. `diff` is prose; empty `errors` mean that the file at `path` holds the new rules."""

    pipeline: str
    path: Path | None = None
    old: Golden | None = None
    new: Golden | None = None
    diff: str = ""
    errors: tuple[RunError, ...] = ()
    notes: tuple[str, ...] = ()
    changed: bool = False


def check_stored(
    config: Config,
    spec: PipelineSpec,
    progress: Progress,
    *,
    artifacts: Path | None = None,
    engine: Engine | None = None,
) -> CheckResult:
    """The working tree against the stored golden. Raises `GoldenError` when that cannot be read."""
    engine = engine or default_engine()
    golden = read_stored(config, spec)
    path = store.golden_path(config.store, spec.name)
    with ExitStack() as stack:
        space = stack.enter_context(workspace(artifacts, spec.name))
        side = stack.enter_context(open_side(resolve_side(str(config.root), config.root)))
        plan = plan_of(config, spec, side, CANDIDATE)
        result = check_candidate(
            plan,
            space,
            golden,
            seed=spec.seeds[0],
            same_spec=golden.spec == spec.fingerprint(),
            rules=rules_of(config),
            path=config.root,
            golden_side=SideInfo(
                golden.commit,
                golden.runs,
                golden.environment,
                str(path),
                spec.run,
            ),
            engine=engine,
            progress=progress,
            stored=path,
        )
        if golden.spec != spec.fingerprint():
            result = replace(
                result,
                notes=(
                    *result.notes,
                    f"the golden of {spec.name!r} was learned from another command, so only its transferable rules "
                    f"were checked; `traincheck refresh {spec.name}` learns it anew",
                ),
            )
        result = with_commands(since_golden(result, golden.commit, path, plan.cwd), config, STORED)
        remember(config, result)
        if space.kept:
            golden = store.with_numbers(golden, path, result.candidate.environment.get("platform", ""))
        recipe = Recipe(spec, golden.spec == spec.fingerprint(), rules_of(config))
        result = keep_bundle(space, result, golden, recipe, engine)
        keep_artifacts(space, result, golden)
    return result


def refresh(
    config: Config,
    spec: PipelineSpec,
    ref: str | None = None,
    reason: str = "",
    *,
    progress: Progress,
    artifacts: Path | None = None,
    engine: Engine | None = None,
) -> RefreshReport:
    """Learn a pipeline's golden again, from `ref` or the working tree, and store it.

    Nothing is written when a run fails, and a file whose rules did not change is left as it is.
    Raises `SideError` for a ref that cannot be used and `GoldenError` for a store that cannot be written.
    """
    engine = engine or default_engine()
    path = store.golden_path(config.store, spec.name)
    ensure_writable(config.store)
    old, notes = _former(path)
    with ExitStack() as stack:
        space = stack.enter_context(workspace(artifacts, spec.name))
        here = stack.enter_context(open_side(resolve_side(str(config.root), config.root)))
        side = here if ref is None else stack.enter_context(open_side(resolve_side(ref, config.root)))
        source_root, forbidden = separation(side, here)
        try:
            learned = learn_side(
                replace(plan_of(config, spec, side, GOLDEN), source_root=source_root, forbidden_roots=forbidden),
                space,
                pipeline=spec.name,
                spec=spec.fingerprint(),
                seeds=spec.seeds,
                vary=spec.vary,
                reason=reason,
                engine=engine,
                progress=progress,
            )
        except RunFailed as failure:
            return RefreshReport(spec.name, path, old, errors=(failure.error,), notes=(*notes, *failure.notes))
    new, notes = learned.golden, (*notes, *learned.notes)
    if old is not None and not reason and _same_but_for_origin(old, new):
        # Numbers are no claims: the rules say the same, whatever the numbers are now.
        written = store.write_numbers(path, new)
        if written is not None:
            notes = (*notes, f"the numbers for `{new.platform}` were learned anew: {written}")
        return RefreshReport(spec.name, path, old, old, "", notes=notes)
    store.write(path, new)
    beside = store.numbers_file(path, new)
    if beside is not None:
        notes = (*notes, f"the numbers for `{new.platform}` lie beside it; commit both: {beside}")
    shown = "" if old is None else render_diff(diff(old, new))
    return RefreshReport(spec.name, path, old, new, shown, notes=notes, changed=True)


def read_stored(config: Config, spec: PipelineSpec) -> Golden:
    """The stored golden of a pipeline. Raises `GoldenError` that ends with the command which makes one."""
    path = store.golden_path(config.store, spec.name)
    if not path.exists():
        raise GoldenError(
            f"The pipeline {spec.name!r} has no golden: there is no {path}. "
            f"Learn it and commit the file: traincheck refresh {spec.name}"
        )
    return store.read(path)


def ensure_writable(directory: Path) -> None:
    """Raise `GoldenError` when no file can be made in a store, before minutes of training are spent for it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=directory, prefix=".traincheck-")
        os.close(handle)
        Path(name).unlink()
    except OSError as error:
        raise GoldenError(
            f"The golden store {directory} cannot be written: {error.strerror or error}. Make it a writable directory, "
            "or set `store` in [tool.traincheck] to one."
        ) from error


def _former(path: Path) -> tuple[Golden | None, tuple[str, ...]]:
    """The golden that is about to be replaced. One that cannot be read is no reason to refuse the remedy for it."""
    if not path.exists():
        return None, ()
    try:
        return store.read(path), ()
    except GoldenError as error:
        return None, (f"the former golden could not be read and is replaced: {error}",)


def _same_but_for_origin(old: Golden, new: Golden) -> bool:
    """Whether only the commit and the reason differ: then the file says everything that is still true."""
    return encode(old) == encode(replace(new, commit=old.commit, reason=old.reason))
