"""A trace as its page shows it."""

from __future__ import annotations

from pathlib import Path

from pytest_traincheck.replay.portray import portrait
from pytest_traincheck.report.trace_html import TracePage, TraceProcess
from pytest_traincheck.trace import load_run
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.trace.show import Summary, processes_of, summary


def trace_page(directory: Path) -> TracePage:
    """What each process did, with pictures where the trace is a reliable record of a training.

    Raises `TraceError` where a file cannot be read.
    """
    processes = tuple(_process(summary(process)) for process in processes_of(directory))
    try:
        run = load_run(directory)
    except TraceError as error:
        return TracePage(directory.name, processes, why=f"There are no pictures: {error}.")
    return TracePage(directory.name, processes, portrait(run))


def _process(found: Summary) -> TraceProcess:
    changes = ", ".join(f"{kind} {count}" for kind, count in found.changes) or "none"
    facts = (("size", found.size), *found.facts, ("changes", changes))
    return TraceProcess(found.name, found.state, facts, found.calls)
