"""Reads one process directory of a trace: `meta.json`, `symbols.jsonl`, `events.bin`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.trace.format import CALL, END, EVENT, FORMAT, MEASURE, SKETCH, SYMBOL_KINDS

Symbol = Mapping[str, Any]


@dataclass(frozen=True)
class RawTrace:
    """What one process left: its description, its symbols by kind and id, and its events in the order of `seq`."""

    path: Path
    meta: Mapping[str, Any]
    symbols: Mapping[str, Sequence[Symbol]]
    events: npt.NDArray[np.void]


def read_process(path: Path) -> RawTrace:
    """Maps one process directory.

    Raises:
        TraceError: a file is missing, of a newer format, or refers to a symbol that was never written.
    """
    meta = _read_meta(path / "meta.json")
    symbols = _read_symbols(path / "symbols.jsonl")
    events = _read_events(path / "events.bin")
    return RawTrace(path, meta, symbols, _without_dangling(events, symbols))


def _read_meta(path: Path) -> Mapping[str, Any]:
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TraceError(f"the trace description cannot be read: {path}: {error}; collect the run again") from error
    if not isinstance(meta, dict) or not isinstance(meta.get("format"), int):
        raise TraceError(f"the trace description has no format number: {path}; collect the run again")
    if meta["format"] > FORMAT:
        raise TraceError(
            f"the trace has format {meta['format']}, this version reads up to {FORMAT}: {path}; "
            "use the version of pytest-traincheck that recorded it"
        )
    return meta


def _read_symbols(path: Path) -> Mapping[str, Sequence[Symbol]]:
    # Entry 0 of every table stands for "none", so that ids index directly.
    tables: dict[str, list[Symbol]] = {kind: [{}] for kind in SYMBOL_KINDS}
    if not path.exists():
        return tables
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("\0"):
                break  # The file was grown ahead of what is written, and the process killed before it was cut.
            try:
                symbol = json.loads(line)
            except ValueError:
                break  # The process was killed while it wrote its last line.
            table = tables.get(symbol.get("k", ""))
            if table is None:
                continue
            number = symbol["i"]
            while len(table) <= number:
                table.append({})
            table[number] = symbol
    return tables


def _read_events(path: Path) -> npt.NDArray[np.void]:
    size = path.stat().st_size if path.exists() else 0
    rows = size // EVENT.itemsize
    if rows == 0:
        return np.empty(0, dtype=EVENT)
    events: npt.NDArray[np.void] = np.memmap(path, dtype=EVENT, mode="r", shape=(rows,))
    ended = np.flatnonzero(events["kind"] == END)
    if ended.size:
        events = events[: int(ended[0])]
    order = np.argsort(events["seq"], kind="stable")
    return np.asarray(events)[order]


def read_sketches(raw: RawTrace) -> npt.NDArray[np.void]:
    """The rows of `sketches.bin` in the order they were written; none where the file is missing."""
    path = raw.path / "sketches.bin"
    rows = path.stat().st_size // SKETCH.itemsize if path.exists() else 0
    if not rows:
        return np.empty(0, dtype=SKETCH)
    found = without_grown(np.fromfile(path, dtype=SKETCH, count=rows))
    known = (found["slot"] < len(raw.symbols["slot"])) & (found["var"] < len(raw.symbols["var"]))
    return found if known.all() else found[known]


def without_grown(rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Rows of a file without the zeros at its end: it is grown ahead, and cut to what was written at an orderly end."""
    raw = np.frombuffer(rows, dtype=np.uint8).reshape(len(rows), rows.dtype.itemsize)
    used = np.flatnonzero(raw.any(axis=1))
    return rows[: int(used[-1]) + 1 if used.size else 0]


def _without_dangling(events: npt.NDArray[np.void], symbols: Mapping[str, Sequence[Symbol]]) -> npt.NDArray[np.void]:
    """Drops rows whose symbols were lost with a killed process; a row is written after its symbols, so these are
    the last few.
    """
    keep = np.ones(len(events), dtype=bool)
    for column, kind in (
        ("ctx", "ctx"),
        ("ret", "ret"),
        ("src", "src"),
        ("mod", "mod"),
        ("opt", "opt"),
    ):
        keep &= events[column] < len(symbols[kind])
    is_call, is_measure = events["kind"] == CALL, events["kind"] == MEASURE
    api, var, measure, args = (len(symbols[name]) for name in ("api", "var", "measure", "args"))
    keep &= events["subject"] < np.where(is_call, api, np.where(is_measure, measure, var))
    # A measure's variable stands where a call has its arguments.
    keep &= events["args"] < np.where(is_measure, var, args)
    return events if keep.all() else events[keep]
