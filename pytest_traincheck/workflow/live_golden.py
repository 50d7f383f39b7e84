"""The golden of a commit: learned in a worktree, or taken from the cache where that was done before."""

from __future__ import annotations

import datetime
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pytest_traincheck.check.result import SideInfo
from pytest_traincheck.config import Config, PipelineSpec
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.launch.cache import Cache, CacheBusyError
from pytest_traincheck.launch.command import CommandError
from pytest_traincheck.launch.fingerprint import FingerprintError, fingerprint
from pytest_traincheck.launch.link import linked_state
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.sides import SideSource, open_side, resolve_side, separation
from pytest_traincheck.text import plural
from pytest_traincheck.workflow import golden_cache
from pytest_traincheck.workflow.check_learned import Obtained
from pytest_traincheck.workflow.engine import Engine, default_engine
from pytest_traincheck.workflow.golden_cache import KeptGolden
from pytest_traincheck.workflow.infer import Learned, learn_side, runs_of
from pytest_traincheck.workflow.plans import plan_of
from pytest_traincheck.workflow.runs import GOLDEN, Workspace, mean_seconds, workspace

_WAIT_MARGIN_S = 60.0
_REPEATED = 1
"""Runs of a seed that is run twice, see `learn_side`."""


@dataclass(frozen=True)
class LiveGolden:
    """Which golden is wanted: that of a configured pipeline at `source`, a commit (see `resolve_side`).

    Without `use_cache` it is learned now, whatever the cache holds, and kept in place of that.
    """

    config: Config
    spec: PipelineSpec
    source: SideSource
    use_cache: bool = True


def obtain(
    wanted: LiveGolden, progress: Progress, *, space: Workspace | None = None, engine: Engine | None = None
) -> Obtained:
    """The golden of a commit. Two processes that want the same one learn it once: the second waits for the first.

    `space` is where the runs are kept, if they are to be kept. What goes wrong with the cache is a note, never an
    error. Raises `RunFailed` when a run fails and `SideError` when there can be no worktree.
    """
    with ExitStack() as stack:
        space = space if space is not None else stack.enter_context(workspace(None, wanted.spec.name))
        engine = engine or default_engine()
        try:
            key = _key(wanted)
        except (FingerprintError, CommandError) as error:
            # A run says better than this what is wrong with an interpreter that cannot be used at all.
            kept, notes = _learn(wanted, space, engine, progress)
            return _fresh(wanted, kept, (*notes, f"the golden was not kept for the next check: {error}"))
        cache = golden_cache.golden_cache()
        try:
            stack.enter_context(cache.hold(key, _patience(wanted.spec), lambda: _say_waiting(wanted, progress)))
        except (CacheBusyError, OSError) as error:
            kept, notes = _learn(wanted, space, engine, progress)
            return _fresh(wanted, kept, (*notes, _not_kept(error)))
        finally:
            progress.finish("")
        found, reasons = _find(cache, key, wanted)
        if found is not None:
            return _from_cache(wanted, found)
        kept, notes = _learn(wanted, space, engine, progress)
        try:
            entry = cache.keep(key, lambda directory: golden_cache.write(directory, kept))
            kept = replace(kept, path=entry / golden_cache.GOLDEN)
        except (GoldenError, OSError) as error:
            notes = (*notes, _not_kept(error))
        return _fresh(wanted, kept, (*reasons, *notes))


def _key(wanted: LiveGolden) -> str:
    python = wanted.config.golden_python or wanted.config.python
    found = fingerprint(python, wanted.spec.env)
    linked = linked_state(wanted.spec.link, wanted.source.directory)
    return golden_cache.key_of(wanted.spec, wanted.source.commit, wanted.source.prefix, {**found, "linked": linked})


def _patience(spec: PipelineSpec) -> float:
    """Another process that learns the same golden takes no longer than this."""
    return spec.timeout * (len(spec.seeds) + len(spec.vary) + _REPEATED) + _WAIT_MARGIN_S


def _say_waiting(wanted: LiveGolden, progress: Progress) -> None:
    progress.start(f"golden of {wanted.spec.name}: waiting for another check that is learning it")


def _find(cache: Cache, key: str, wanted: LiveGolden) -> tuple[KeptGolden | None, tuple[str, ...]]:
    """What the cache holds, or why that is not used."""
    entry = cache.find(key) if wanted.use_cache else None
    if entry is None:
        return None, ()
    try:
        kept = golden_cache.read(entry, wanted.source.commit)
    except GoldenError as error:
        return None, (f"the golden in the cache was damaged and was learned again: {error}",)
    changed = golden_cache.changed_outside(kept.outside or {})
    if changed:
        return None, (f"the golden in the cache was learned again, since {changed} has changed, which its runs import",)
    return kept, ()


def _learn(
    wanted: LiveGolden, space: Workspace, engine: Engine, progress: Progress
) -> tuple[KeptGolden, tuple[str, ...]]:
    """Run the commit in a worktree of its own, and learn."""
    config, spec = wanted.config, wanted.spec
    with ExitStack() as stack:
        here = stack.enter_context(open_side(resolve_side(str(config.root), config.root)))
        side = stack.enter_context(open_side(wanted.source, spec.link))
        source_root, forbidden = separation(side, here)
        plan = replace(plan_of(config, spec, side, GOLDEN), source_root=source_root, forbidden_roots=forbidden)
        progress.expect(runs_of(spec, repeats=engine.repeats))
        learned: Learned = learn_side(
            plan,
            space,
            spec,
            engine=engine,
            progress=progress,
        )
        kept = KeptGolden(
            learned.golden,
            datetime.datetime.now(datetime.timezone.utc),
            mean_seconds(learned.runs),
            learned.seconds,
            len(learned.runs),
            golden_cache.modules_outside((run.run_dir for run in learned.runs), side.root),
        )
    return kept, learned.notes


def _fresh(wanted: LiveGolden, kept: KeptGolden, notes: tuple[str, ...]) -> Obtained:
    return Obtained(kept.golden, _side(wanted, kept), kept.golden_run_s, kept.infer_s, notes)


def _from_cache(wanted: LiveGolden, kept: KeptGolden) -> Obtained:
    age = datetime.datetime.now(datetime.timezone.utc) - kept.learned
    note = (
        f"the golden of {wanted.source.commit[:12]} came from the cache, learned {_in_words(age)} ago; `--no-cache` "
        "(in pytest `--traincheck-no-cache`) learns it again"
    )
    side = replace(_side(wanted, kept), cached=kept.learned.isoformat(timespec="seconds"))
    return Obtained(kept.golden, side, notes=(note,))


def _side(wanted: LiveGolden, kept: KeptGolden) -> SideInfo:
    path = str(kept.path) if kept.path.name else ""
    return SideInfo(wanted.source.commit, kept.runs, kept.golden.environment, path, wanted.spec.run)


def _not_kept(error: Exception) -> str:
    return f"the golden could not be kept for the next check: {error}"


def _in_words(age: datetime.timedelta) -> str:
    """ "5 seconds", "3 minutes", "1 hour", "12 days"."""
    seconds = max(0, int(age.total_seconds()))
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return plural(seconds // size, unit)
    return plural(seconds, "second")
