"""How much the modules of a run return.

Two modules may hold the same parameters and not compute the same: a coupling layer is more than the network in it. What
returns other numbers of elements is something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from pytest_traincheck.golden.recording import Recording
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.reader import read_sketches
from pytest_traincheck.trace.run import Run

Sizes = Mapping[str, frozenset[tuple[int, ...]]]
"""Module, with its root -> numbers of elements of the tensors that its calls returned, one tuple for each call."""


def differ(mine: frozenset[tuple[int, ...]] | None, theirs: frozenset[tuple[int, ...]] | None) -> bool:
    """Whether two modules are known to return something else: no call of one gave as much as some call of the other."""
    return bool(mine and theirs and not mine & theirs)


def sizes_of_golden(recording: Recording | None) -> Sizes:
    """What the modules of the recorded run returned while they were sketched."""
    if recording is None:
        return {}
    strings = recording.strings
    results = [number for number, text in enumerate(strings) if _is_result(text)]
    modules = [number for number, text in enumerate(strings) if text == "module"]
    rows = recording.sketches[np.isin(recording.sketches["slot"], results) & (recording.sketches["call"] >= 0)]
    calls = recording.calls[rows["call"]]
    return _by_module(
        (strings[int(call["module"])], int(row["call"]), int(row["size"]))
        for row, call in zip(rows, calls, strict=True)
        if int(call["kind"]) in modules
    )


def sizes_of_run(run: Run) -> Sizes:
    """The same of a run, under its own names; of several processes the last one that saw a module."""
    found: dict[str, frozenset[tuple[int, ...]]] = {}
    for process in run.processes:
        found |= _of_process(process)
    return found


def _of_process(process: Process) -> Sizes:
    sketches = read_sketches(process.raw)
    results = [number for number, slot in enumerate(process.raw.symbols["slot"]) if _is_result(slot.get("name", ""))]
    sketches = sketches[np.isin(sketches["slot"], results)]
    calls = process.rows_of_type("module")
    places = np.searchsorted(process.events["seq"][calls], sketches["call"])
    known = places < len(calls)
    known[known] = process.events["seq"][calls[places[known]]] == sketches["call"][known]
    return _by_module(
        (process.module_name(int(calls[place])), int(row["call"]), int(row["size"]))
        for place, row in zip(places[known].tolist(), sketches[known], strict=True)
    )


def _is_result(slot: str) -> bool:
    return slot.partition(".")[0] == "out"


def _by_module(results: Iterable[tuple[str, int, int]]) -> Sizes:
    calls: dict[tuple[str, int], list[int]] = {}
    for module, call, size in results:
        calls.setdefault((module, call), []).append(size)
    found: dict[str, set[tuple[int, ...]]] = {}
    for (module, _), sizes in calls.items():
        found.setdefault(module, set()).add(tuple(sorted(sizes)))
    return {module: frozenset(sizes) for module, sizes in found.items()}
