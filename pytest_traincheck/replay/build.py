"""Makes the recording of a run from its trace."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_traincheck.golden.recording import (
    CALLS,
    CHOSEN,
    DRAWN,
    ENTRY,
    EVALUATION,
    GRAD,
    PHASE,
    SKETCHES,
    TRAINING,
    Recording,
)
from pytest_traincheck.replay.computed import GENERATOR
from pytest_traincheck.replay.fetches import Fetch, fetches
from pytest_traincheck.replay.step_logs import Logged, step_logs
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Ints
from pytest_traincheck.trace.reader import read_sketches
from pytest_traincheck.trace.stages import INIT

PHASES = (PHASE, EVALUATION)
LEFT = "left"
"""Slot of what a collective leaves, as the probe writes it."""
KINDS = ("module", "function", "autograd", "optimizer", "clip", "scaler", "scheduler", "data", "init", "collective")
"""Types of calls that a recording holds."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """A recording with the places in the trace that its rows come from."""

    recording: Recording
    rows: Ints
    """Position of each call among the events of its process."""
    variables: Ints
    """Variable id of each sketch; 0 for a tensor of a call."""
    workers: bool = False
    """Whether worker processes made batches."""
    logs: tuple[Logged, ...] = ()
    """The log of steps of each training process, with its places in the trace."""


def record(run: Run) -> Recorded | None:
    """What a run computed while it was sketched; None where nothing was."""
    return run.memo("recorded", lambda: _record(run))


class _Texts:
    def __init__(self) -> None:
        self.numbers: dict[str, int] = {"": 0}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))

    def table(self, texts: Sequence[str]) -> Ints:
        return np.array([self(text) for text in texts], dtype=np.int64)


def _record(run: Run) -> Recorded | None:
    texts = _Texts()
    calls, sketches, rows, variables = [], [], [], []
    base = 0
    for position, process in enumerate(run.processes):
        found = read_sketches(process.raw)
        if not len(found):
            continue
        chosen = _chosen(process, _intervals(process, found))
        found = found[~_of_idle_generators(process, found) & ~_of_exchanges(process, found)]
        calls.append(_calls(process, position, chosen, base, texts))
        table = _sketches(process, position, chosen, base, found, texts)
        made = _fetched(process, position, chosen, base, fetches(run, process), texts)
        sketches += [table, made]
        rows.append(chosen)
        variables += [found["var"].astype(np.int64), np.zeros(len(made), dtype=np.int64)]
        base += len(chosen)
    if not calls:
        return None
    logs = step_logs(run)
    recording = Recording(
        tuple(texts.numbers),
        np.concatenate(calls),
        np.concatenate(sketches),
        run.seed,
        logs=tuple(item.log for item in logs),
    )
    return Recorded(recording, np.concatenate(rows), np.concatenate(variables), bool(run.workers), logs)


def _intervals(process: Process, found: np.ndarray[Any, Any]) -> tuple[Ints, Ints]:
    """When each phase of sketching began and when its last sketch was taken."""
    slots = [number for number, slot in enumerate(process.raw.symbols["slot"]) if slot.get("name") in PHASES]
    at = found["at"].astype(np.int64)
    begins = np.concatenate([[0], at[np.isin(found["slot"], slots)]])
    ends = at[np.append(np.searchsorted(at, begins[1:]) - 1, len(at) - 1)]
    return begins, ends


def _of_idle_generators(process: Process, found: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Which rows tell the state of a generator that never moves.

    Nobody draws from it, so nothing is compared with it; and where nobody has seeded it either, its state is another in
    every process, so that recordings of equal runs would differ.
    """
    names = [str(slot.get("name", "")).partition(".") for slot in process.raw.symbols["slot"]]
    generators = sorted({rest for head, _, rest in names if head in GENERATOR})
    number = {name: place for place, name in enumerate(generators, start=1)}
    of_slot = np.array([number[rest] if head in GENERATOR else 0 for head, _, rest in names], dtype=np.int64)
    generator = of_slot[found["slot"]]
    idle = np.ones(len(generators) + 1, dtype=bool)
    idle[0] = False
    first, where = np.unique(generator, return_index=True)
    state = np.zeros(len(idle), dtype=found["digest"].dtype)
    state[first] = found["digest"][where]
    idle[generator[(found["digest"] != state[generator])]] = False
    return np.asarray(idle[generator])


def _of_exchanges(process: Process, found: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Which rows tell what a collective left: that owes nothing to what this process alone put in."""
    names = [str(slot.get("name", "")) for slot in process.raw.symbols["slot"]]
    exchanged = np.array([name.partition(".")[0] == LEFT for name in names], dtype=bool)
    return np.asarray(exchanged[found["slot"]])


def _chosen(process: Process, intervals: tuple[Ints, Ints]) -> Ints:
    """Rows of the calls of a kind that is compared, as long as sketches were taken, outside of backward passes."""
    events = process.events
    begins, ends = intervals
    raised = (events["flags"] & fmt.RAISED) != 0
    mask = process.is_call & process.type_codes.isin(KINDS) & ~raised
    mask &= ~process.inside("autograd")
    rows = np.flatnonzero(mask)
    times = events["seq"][rows].astype(np.int64)
    phase = np.searchsorted(begins, times, side="right") - 1
    chosen: Ints = rows[times <= ends[phase]]
    return chosen


def _calls(process: Process, position: int, chosen: Ints, base: int, texts: _Texts) -> np.ndarray[Any, Any]:
    events = process.events[chosen]
    table = np.zeros(len(chosen), dtype=CALLS)
    table["process"] = position
    table["parent"] = _parents(process, chosen, base)
    table["begin"], table["end"] = events["seq"], events["end"]
    table["window"] = process.window[chosen]
    table["name"] = texts.table(process.api_names)[events["subject"]]
    table["kind"] = texts.table(process.api_types)[events["subject"]]
    table["module"] = texts.table(process.names.modules)[events["mod"]]
    table["optimizer"] = texts.table(process.names.optimizers)[events["opt"]]
    arguments = texts.table([_plain_arguments(symbol) for symbol in process.raw.symbols["args"]])
    table["arguments"] = arguments[events["args"]]
    contexts = process.raw.symbols["ctx"]
    table["autocast"] = texts.table([str(symbol.get("autocast") or "") for symbol in contexts])[events["ctx"]]
    grad = np.array([bool(symbol.get("grad", True)) for symbol in contexts])[events["ctx"]]
    flags = events["flags"]
    entry = ((flags & fmt.ENTRY) != 0) & (process.stage[chosen] != INIT)
    table["flags"] = np.where(flags & fmt.TRAINING, TRAINING, 0) + np.where(grad, GRAD, 0) + np.where(entry, ENTRY, 0)
    return table


def _parents(process: Process, chosen: Ints, base: int) -> Ints:
    """The innermost chosen call around each, as a position in the table."""
    place = np.full(len(process.events) + 1, -1)
    place[chosen] = np.arange(len(chosen)) + base
    outer = process.parent_row
    current = outer[chosen]
    found = place[current]  # a row of -1 reads the last entry, which is -1
    while True:
        unsettled = (found < 0) & (current >= 0)
        if not unsettled.any():
            return found
        current = np.where(unsettled, outer[np.maximum(current, 0)], -1)
        found = np.where(found < 0, place[current], found)


def _plain_arguments(symbol: Mapping[str, Any]) -> str:
    """The arguments that are no tensors, as one text that is equal where they are."""
    values = {name: plain for name, value in symbol.get("values", {}).items() if (plain := _plain(value)) is not None}
    return json.dumps(values, sort_keys=True, ensure_ascii=True)[:2000] if values else ""


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        if "tensor" in value or "type" in value:
            return None
        for kind in ("list", "tuple"):
            if kind in value:
                parts = [_plain(item) for item in value[kind]]
                return parts if any(part is not None for part in parts) else None
        if "dict" in value:
            found = {name: plain for name, item in value["dict"].items() if (plain := _plain(item)) is not None}
            return found or None
        return None
    return value


def _fetched(
    process: Process, position: int, chosen: Ints, base: int, known: Mapping[int, Fetch], texts: _Texts
) -> np.ndarray[Any, Any]:
    """Rows that say how batches were made."""
    begins = process.events["seq"][chosen].tolist()
    places = [(place, known[begin]) for place, begin in enumerate(begins) if begin in known]
    table = np.zeros(2 * len(places), dtype=SKETCHES)
    table["process"] = position
    for number, (place, fetch) in enumerate(places):
        for row, (slot, digest) in enumerate(((CHOSEN, fetch.chosen), (DRAWN, fetch.drawn))):
            entry = table[2 * number + row]
            entry["call"], entry["at"] = base + place, begins[place]
            entry["slot"], entry["digest"], entry["size"] = texts(slot), digest, fetch.by_worker
    return table


def _sketches(
    process: Process, position: int, chosen: Ints, base: int, found: np.ndarray[Any, Any], texts: _Texts
) -> np.ndarray[Any, Any]:
    table = np.zeros(len(found), dtype=SKETCHES)
    table["process"] = position
    begins = process.events["seq"][chosen].astype(np.int64)
    place = np.searchsorted(begins, found["call"].astype(np.int64))
    known = (place < len(begins)) & (found["call"] > 0)
    known &= begins[np.minimum(place, max(len(begins) - 1, 0))] == found["call"] if len(begins) else False
    table["call"] = np.where(known, place + base, -1)
    slots = process.raw.symbols["slot"]
    table["slot"] = texts.table([str(slot.get("name", "")) for slot in slots])[found["slot"]]
    table["dtype"] = texts.table([str(slot.get("dtype", "")) for slot in slots])[found["slot"]]
    table["shape"] = texts.table(["x".join(map(str, slot.get("shape", []))) for slot in slots])[found["slot"]]
    table["variable"] = texts.table(process.names.variables)[found["var"]]
    kinds = [str(symbol.get("kind", "")) for symbol in process.raw.symbols["var"]]
    table["kind"] = texts.table(kinds)[found["var"]]
    for name in ("at", "size", "faint", "digest", "norm", "mean", "projections"):
        table[name] = found[name]
    return table
