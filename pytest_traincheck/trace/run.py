"""One run of a pipeline: the processes that trained, by rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pytest_traincheck.disk import full_disk_in
from pytest_traincheck.looks import Looks
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.trace.limit import cut_at_limit
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.reader import RawTrace, has_rows, read_process

T = TypeVar("T")


@dataclass(eq=False)
class Run:
    """The training processes of one run, sorted by rank and then by start."""

    path: Path
    processes: tuple[Process, ...]
    workers: tuple[Process, ...] = ()
    """Worker processes of DataLoaders, by start."""
    others: tuple[Process, ...] = ()
    """Observed processes that neither trained nor loaded data."""
    golden_models: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    """Model -> parameter -> shape in the golden, where the run is under its names; empty otherwise."""
    _memo: dict[object, Any] = field(default_factory=dict, repr=False)

    def memo(self, key: object, compute: Callable[[], T]) -> T:
        if key not in self._memo:
            self._memo[key] = compute()
        value: T = self._memo[key]
        return value

    @property
    def events(self) -> int:
        return sum(len(process.events) for process in self.processes)

    @property
    def steps(self) -> int:
        """Training steps of the process that made the most."""
        return max((process.windows for process in self.processes), default=0)

    @property
    def platform(self) -> str:
        """What the numbers of this run belong to, as the first rank says it, e.g. `linux-x86_64-cuda-h100`."""
        return str(self.processes[0].raw.meta.get("platform", "")) if self.processes else ""

    @property
    def seed(self) -> str:
        """The seed that it was started with, as text; empty where none is known."""
        seed = self.processes[0].raw.meta.get("seed") if self.processes else None
        return "" if seed is None else str(seed)

    @property
    def extensions(self) -> Mapping[str, str]:
        """What plug-ins had observed and looked through in every training process, each with its hash."""
        told = [process.raw.meta.get("extensions") or {} for process in self.processes]
        first = told[0] if told else {}
        return {key: digest for key, digest in first.items() if all(other.get(key) == digest for other in told)}

    @property
    def extensions_in_use(self) -> Mapping[str, str]:
        """Those of them that there was an occasion for: a function that is there, a framework that is loaded."""
        used = {key for process in self.processes for key in process.raw.meta.get("extensions_in_use") or ()}
        return {key: digest for key, digest in self.extensions.items() if key in used}

    @property
    def not_needed(self) -> Looks:
        """What was left out in some process, since no rule of the golden that it was recorded for needs it."""
        return frozenset(
            look for process in (*self.processes, *self.workers) for look in process.raw.meta.get("not_needed") or ()
        )

    @property
    def left_out(self) -> Mapping[str, int]:
        """What the probe could not look at, and how often, over all processes."""
        found: dict[str, int] = {}
        unobserved: dict[str, list[str]] = {}
        for process in (*self.processes, *self.workers):
            for what, count in (process.raw.meta.get("left_out") or {}).items():
                found[what] = found.get(what, 0) + int(count)
            for function, reason in (process.raw.meta.get("unobserved") or {}).items():
                names = unobserved.setdefault(reason, [])
                names += [] if function in names else [function]
        for reason, names in unobserved.items():
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            found[f"calls of {', '.join(f'`{name}`' for name in names[:_NAMED])}{more}: {reason}"] = 1
        return found

    @property
    def peers(self) -> tuple[tuple[int, ...], ...]:
        """Positions of processes that train together: one tuple for each launch of several ranks."""
        by_rank: dict[int, list[int]] = {}
        for position, process in enumerate(self.processes):
            by_rank.setdefault(process.rank, []).append(position)
        launches = max((len(positions) for positions in by_rank.values()), default=0)
        groups = (
            tuple(positions[number] for positions in by_rank.values() if number < len(positions))
            for number in range(launches)
        )
        return tuple(group for group in groups if len(group) > 1)

    def renamed(
        self,
        roots: Mapping[str, str],
        optimizers: Mapping[str, str],
        lead: str = "",
        arguments: Mapping[tuple[str, str], str] | None = None,
    ) -> Run:
        """The same run with roots, optimizers and arguments of models called as the golden calls them, and iterations
        counted as there.
        """
        if not roots and not optimizers and not lead and not arguments:
            return self
        processes = tuple(process.renamed(roots, optimizers, lead, arguments) for process in self.processes)
        return Run(self.path, processes, self.workers, self.others)

    def beside(self, models: Mapping[str, Mapping[str, Sequence[int]]]) -> Run:
        """The same run, with what a golden knows of its models."""
        return replace(self, golden_models=models)


_NAMED = 3
"""Functions of one sort that are named."""


def load_run(path: Path) -> Run:
    """Reads a run directory and makes sure that it is a reliable record of a training.

    Raises:
        TraceError: nothing was observed, nothing was trained, a training process did not finish or lost events, or
        the probe
            failed inside it.
    """
    directories = sorted(path.glob("proc-*")) if path.is_dir() else []
    if not directories:
        raise TraceError(
            f"the probe observed no process: {path}; run the pipeline with a Python that imports torch, "
            "without `-I`, `-E` or `-S`, and let scripts add to PYTHONPATH (`PYTHONPATH=src:$PYTHONPATH`) instead of "
            "replacing it: these hide the probe from it"
        )
    raws = [read_process(directory) for directory in described(directories)]
    observed = [Process(raw) for raw in raws]
    training = [process for process in observed if _trains(process)]
    workers = sorted((process for process in observed if len(process.measures("worker"))), key=_started)
    if not training:
        for raw in raws:
            reject_unreliable(raw)
        raise TraceError(
            f"nothing was trained: no `backward` and no optimizer step in {len(raws)} observed process(es) of {path}; "
            "let the command run at least two training steps"
        )
    for process in training:
        reject_unreliable(process.raw, finished=not _was_ended(process.raw.meta, [raw.meta for raw in raws]))
        _reject_parts(process)
    for process in workers:
        # Loaders end their workers as they like, but what one has lost nobody may take for what it did.
        _reject_lost(process.raw)
    training.sort(key=lambda process: (process.rank, _started(process)))
    others = tuple(process for process in observed if process not in training and process not in workers)
    return Run(path, tuple(training), tuple(workers), others)


def described(directories: Sequence[Path]) -> list[Path]:
    """Those of the process directories that are read: a process that died while it loaded the probe left none of its
    files, but one with events and without a description is damaged, and not to be passed over.
    """
    return [path for path in directories if (path / "meta.json").exists() or has_rows(path)]


def _was_ended(meta: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the program itself ended a process: its parent did, as a pool ends its workers, and went on to its own
    end, or another program took its place (`exec`). Processes of a launch are no children of one another.
    """
    for other in others:
        alike = all(other.get(name) == meta.get(name) for name in ("rank", "world_size"))
        later = other.get("pid") == meta.get("pid") and other.get("started", 0.0) > meta.get("started", 0.0)
        if alike and other.get("finished") and (later or other.get("pid") == meta.get("ppid")):
            return True
    return False


def _started(process: Process) -> float:
    return float(process.raw.meta.get("started", 0.0))


def _trains(process: Process) -> bool:
    return bool(process.steps) or bool(process.rows_of_type("autograd").size)


def reject_unreliable(raw: RawTrace, *, finished: bool = True) -> None:
    """Raises `TraceError` for a process in which the probe failed, that lost events, or that has not `finished`."""
    meta = raw.meta
    rank = meta.get("rank", 0)
    if meta.get("probe_error_count", 0) or meta.get("probe_errors"):
        first = (meta.get("probe_errors") or [{}])[0]
        if advice := full_disk_in(str(first.get("error", "")), raw.path):
            raise TraceError(f"the trace of rank {rank} could not be written: {raw.path}: {first['error']}; {advice}")
        raise TraceError(
            f"the probe failed inside the training process of rank {rank}: {first.get('where', '?')}: "
            f"{first.get('error', '?')}; the run is unreliable: please report this as a bug of pytest-traincheck"
        )
    _reject_lost(raw)
    if finished and not cut_at_limit(meta) and not meta.get("finished", False):
        raise TraceError(
            f"the training process of rank {rank} did not finish: {raw.path}; look at its output for the reason"
        )


def _reject_parts(process: Process) -> None:
    """Raises `TraceError` where not every step is there: what follows what in a run would be told wrong."""
    raw = process.raw
    if raw.gone or process.sampled:
        what = f"{raw.gone} of its events were let go (`--keep`)" if raw.gone else "not every step was observed"
        raise TraceError(
            f"the trace of rank {process.rank} does not hold every step: {raw.path}: {what}; `traincheck trace` shows "
            "what is there"
        )


def reject_partial(run: Run) -> None:
    """Raises `TraceError` for a run of which something was left out on purpose: it says nothing to other rules."""
    if run.not_needed:
        raise TraceError(
            f"the trace was recorded in check mode, without what its golden's rules do not read "
            f"({', '.join(sorted(run.not_needed))}), so that nothing can be learned from it: {run.path}; "
            "record it with `traincheck collect`"
        )


def _reject_lost(raw: RawTrace) -> None:
    if lost := raw.meta.get("lost_events", 0):
        raise TraceError(
            f"{lost} events were lost on rank {raw.meta.get('rank', 0)}: {raw.path}; free disk space and run again"
        )
