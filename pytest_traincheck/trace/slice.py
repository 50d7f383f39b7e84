"""The beginning of a run as a trace: what its processes would have left, had they ended between two steps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_traincheck.redaction import redacted_words
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.reader import RawTrace, read_sketches
from pytest_traincheck.trace.run import Run


def borders(run: Run, last_step: int) -> tuple[int | None, ...]:
    """For each training process the number of its last event in window `last_step`; None where that is the rest."""
    ends = [process.step_ends for process in run.processes]
    return tuple(int(found[last_step]) if last_step < len(found) else None for found in ends)


def write_slice(run: Run, last: Sequence[int | None], target: Path) -> int:
    """Write the events of each training process up to its border into `target`; the number of events written.

    Workers of data loaders are kept whole: their counters are their own, and what they record is little. Calls that
    were open at the border are left out, as they are when a process is killed. Raises `OSError`.
    """
    events = 0
    for process, border in zip(run.processes, last, strict=True):
        events += _write_process(process.raw, border, target / process.raw.path.name)
    for worker in run.workers:
        _write_process(worker.raw, None, target / worker.raw.path.name)
    return events


def _write_process(raw: RawTrace, border: int | None, target: Path) -> int:
    # The order in which a process writes: a call when it ends.
    order = np.argsort(raw.events["end"], kind="stable")
    sketches = read_sketches(raw)
    if border is not None:
        order, sketches = order[raw.events["end"][order] <= border], sketches[sketches["at"] <= border]
    events = raw.events[order]
    target.mkdir(parents=True)
    # The paths of imported modules tell much of a machine and nothing of a training.
    argv = redacted_words(raw.meta.get("argv", []))
    meta = {**raw.meta, "argv": argv, "events": len(events), "modules": []}
    (target / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")
    (target / "symbols.jsonl").write_bytes(_symbols(raw, events, sketches, border))
    (target / "events.bin").write_bytes(events.tobytes())
    if len(sketches):
        (target / "sketches.bin").write_bytes(sketches.tobytes())
    return len(events)


def _symbols(raw: RawTrace, events: npt.NDArray[np.void], sketches: npt.NDArray[np.void], border: int | None) -> bytes:
    """The lines up to the last one that the events need: a symbol is written before the first row that has it."""
    lines = (raw.path / "symbols.jsonl").read_bytes().rstrip(b"\0").splitlines(keepends=True)
    if border is None:
        return b"".join(lines)
    highest = _highest(events, sketches)
    needed = 0
    for number, line in enumerate(lines, start=1):
        try:
            symbol: Mapping[str, Any] = json.loads(line)
        except ValueError:
            break  # The reader ends here as well.
        kind = symbol.get("k", "")
        # Groups and attributes tell themselves when they were seen; no row has one.
        known = symbol["seq"] <= border if kind in ("group", "attribute") else symbol["i"] <= highest.get(kind, 0)
        if known:
            needed = number
    return b"".join(lines[:needed])


def _highest(events: npt.NDArray[np.void], sketches: npt.NDArray[np.void]) -> dict[str, int]:
    """The largest id of each kind of symbol that a row refers to."""
    kind = events["kind"]
    calls, changes, measures = (events[kind == which] for which in (fmt.CALL, fmt.CHANGE, fmt.MEASURE))
    found = {
        "api": [calls["subject"]],
        "var": [changes["subject"], measures["args"], sketches["var"]],
        "measure": [measures["subject"]],
        "args": [calls["args"]],
        "slot": [sketches["slot"]],
        **{name: [events[name]] for name in ("ctx", "ret", "src", "mod", "opt", "thread")},
    }
    return {name: max((int(column.max()) for column in columns if len(column)), default=0)
            for name, columns in found.items()}  # fmt: skip
