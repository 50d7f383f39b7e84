"""Makes of a trace of every step what a probe leaves that sleeps between some of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from pytest_traincheck.trace import Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.stretch import first_sights, joined, last_states

_SPACE = 1000
"""Numbers that come free behind each event."""


def thin(run: Run, head: int, *every: int) -> Path:
    """Take out of the trace of each rank all steps behind the first `head` but one in `every`."""
    for process, each in zip(run.processes, every, strict=True):
        _thin(process, head, each)
    return run.path


def _thin(process: Process, head: int, every: int) -> None:
    path = process.raw.path
    rows = process.events[:].copy()
    for column in ("seq", "end", "parent"):
        rows[column] *= _SPACE
    observed, unobserved = _measures(path)
    kept, states = [], rows[:0]
    asleep = False
    for window in range(process.windows + 1):
        mine = rows[process.window == window]
        if not len(mine):
            break
        wanted = window < head or window % every == 0
        begin = int(mine["seq"].min()) - _SPACE // 2
        if wanted and asleep:
            sights = first_sights(states, 0)
            sights["seq"] = sights["end"] = begin + 1 + np.arange(len(sights))
            kept += [_mark(observed, begin, window), sights]
        if wanted:
            kept.append(mine)
        elif not asleep:
            kept.append(_mark(unobserved, int(mine["seq"].max()) + 1, window))
        asleep = not wanted
        states = last_states(states, mine)
    data = joined(kept)
    (path / "events.bin").write_bytes(data.tobytes())
    (path / "sketches.bin").unlink(missing_ok=True)
    meta = json.loads((path / "meta.json").read_text())
    sampling = {"steps": process.windows, "every": every}
    (path / "meta.json").write_text(json.dumps({**meta, "events": len(data), "sampling": sampling}))


def _measures(path: Path) -> tuple[int, int]:
    """Numbers of the two measures, which are added to the symbols."""
    symbols = path / "symbols.jsonl"
    known = [json.loads(line) for line in symbols.read_text().splitlines()]
    number = 1 + max((item["i"] for item in known if item["k"] == "measure"), default=0)
    with symbols.open("a") as file:
        for place, name in enumerate((fmt.OBSERVED, fmt.UNOBSERVED)):
            file.write(json.dumps({"k": "measure", "i": number + place, "name": name}) + "\n")
    return number, number + 1


def _mark(measure: int, at: int, step: int) -> np.ndarray:
    row = np.zeros(1, dtype=fmt.EVENT)
    row["kind"], row["thread"], row["seq"], row["end"] = fmt.MEASURE, 1, at, at
    row["subject"], row["value"] = measure, step
    return row
