"""The end state of a training as a file: `end-state.npz`, beside the trace, written whole or not at all.

It may come from elsewhere, so what is read is checked as a trace is: symbols by their schema, rows against the symbols.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pytest_traincheck.atomic import replace_file
from pytest_traincheck.online.ending import MOST, Ending, Left, Saved
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.columns import Columns, Rows
from pytest_traincheck.trace.errors import TraceError, damaged
from pytest_traincheck.trace.rows import checked_events
from pytest_traincheck.trace.schema import wrong_meta
from pytest_traincheck.trace.symbols import Tables, parse_symbols

FORMAT = 1
_LARGEST = 1 << 29
_RANKS = 4096


def write(path: Path, ending: Ending) -> None:
    """Write the file, in the place of an older one. Raises `OSError`."""
    arrays: dict[str, Any] = {}
    ranks = []
    for number, left in enumerate(ending.ranks):
        arrays[f"head-{number}"] = left.head
        arrays[f"symbols-{number}"] = np.frombuffer(_lines(left.tables), dtype=np.uint8)
        for place, saved in enumerate(left.saved):
            arrays[f"saved-{number}-{place}"] = saved.states
            arrays[f"tail-{number}-{place}"] = saved.tail
        ranks.append({
            "rank": left.rank, "meta": dict(left.meta), "head_steps": left.head_steps, "last": left.last,
            "joins": list(left.joins),
            "saved": [[saved.steps, saved.seq, saved.begin, saved.asked] for saved in left.saved],
        })  # fmt: skip
    record = {
        "format": FORMAT, "ranks": ranks, "same_spec": ending.same_spec, "other_length": ending.other_length,
        "broken": sorted(ending.broken), "episodes": dict(ending.episodes), "granted": dict(ending.granted),
        "observed": ending.observed,
    }  # fmt: skip
    arrays["state"] = np.frombuffer(json.dumps(record, sort_keys=True).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    replace_file(path, buffer.getvalue())


def read(path: Path) -> Ending:
    """Read such a file. Raises `TraceError` for one that is not there, is damaged, or of a newer format."""
    try:
        if path.stat().st_size > _LARGEST:
            raise damaged(path, "it is too large")
        with np.load(path, allow_pickle=False) as arrays:
            return _ending(path, {name: arrays[name] for name in arrays.files})
    except OSError as error:
        raise TraceError(f"the end state of a training cannot be read: {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, zipfile.BadZipFile, EOFError) as error:
        if isinstance(error, TraceError):
            raise
        raise damaged(path, f"it is no end state of a training ({type(error).__name__})") from error


def _ending(path: Path, arrays: Mapping[str, np.ndarray]) -> Ending:
    record = json.loads(bytes(arrays["state"]))
    if type(record["format"]) is not int or record["format"] > FORMAT:
        raise TraceError(
            f"the end state of a training has format {record['format']}, this version reads up to {FORMAT}: {path}"
        )
    ranks = record["ranks"]
    if not 0 < len(ranks) <= _RANKS:
        raise damaged(path, "it has no ranks")
    return Ending(
        tuple(_left(path, number, rank, arrays) for number, rank in enumerate(ranks)),
        bool(record["same_spec"]),
        bool(record["other_length"]),
        frozenset(map(str, record["broken"])),
        {str(rule): _natural(count) for rule, count in record["episodes"].items()},
        {str(rule): str(why) for rule, why in record["granted"].items()},
        _natural(record.get("observed", 0)),  # which files of earlier versions lack
    )


def _left(path: Path, number: int, rank: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Left:
    tables = parse_symbols(bytes(arrays[f"symbols-{number}"]), path, whole=True)
    if not isinstance(rank["meta"], dict) or wrong_meta(rank["meta"]) or len(rank["saved"]) > MOST:
        raise damaged(path, "a process in it is described wrongly")
    saved = tuple(
        Saved(
            _natural(steps),
            _natural(seq),
            _natural(begin),
            _rows(path, arrays[f"saved-{number}-{place}"], tables),
            _rows(path, arrays[f"tail-{number}-{place}"], tables),
            bool(asked),
        )
        for place, (steps, seq, begin, asked) in enumerate(rank["saved"])
    )
    return Left(
        _natural(rank["rank"]),
        rank["meta"],
        tables,
        _rows(path, arrays[f"head-{number}"], tables),
        _natural(rank["head_steps"]),
        _natural(rank["last"]),
        saved,
        tuple(map(_natural, rank["joins"])),
    )


def _rows(path: Path, rows: np.ndarray, tables: Tables) -> Rows:
    if rows.dtype != fmt.EVENT or rows.ndim != 1:
        raise damaged(path, "it holds rows of another kind")
    found: Rows = checked_events(Columns.of(rows), tables, path, whole=True)[:]
    return found


def _natural(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 40:
        raise ValueError(f"{value} is no number of this kind")
    return value


def _lines(tables: Tables) -> bytes:
    symbols = (symbol for table in tables.values() for symbol in table[1:])
    return b"".join(json.dumps(symbol, allow_nan=False).encode() + b"\n" for symbol in symbols)
