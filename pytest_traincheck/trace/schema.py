"""What a trace of unknown origin must look like before it is evaluated: `docs/trace-format.md` as a check.

A trace that was recorded here needs none of this: the reader forgives what a killed process leaves. One that comes from
elsewhere could make a reader allocate without bounds, index what is not there, or follow parents in a circle for ever.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.errors import TraceError

TEXT_LIMIT = 4096
"""Characters of a name."""


def check_process(path: Path) -> None:
    """Make sure that a process directory holds what the format allows. Raises `TraceError` that names the file."""
    _check_meta(path / "meta.json")
    counts = _check_symbols(path / "symbols.jsonl")
    _check_events(path / "events.bin", counts)
    sketches = path / "sketches.bin"
    if sketches.exists():
        rows = _table(sketches, fmt.SKETCH)
        _check_ids(sketches, rows, {"slot": "slot", "var": "var"}, counts)


def _damaged(path: Path, what: str) -> TraceError:
    return TraceError(
        f"{path.parent.name}/{path.name} is not part of a trace: {what}; take the trace from its origin again"
    )


def _check_meta(path: Path) -> None:
    try:
        meta = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, f"it is no JSON ({error})") from error
    if not isinstance(meta, dict) or not _whole(meta.get("format")):
        raise _damaged(path, "it has no format number")
    if meta["format"] > fmt.FORMAT:
        return  # The reader says that a newer version is needed.
    for name, right in _META.items():
        if name in meta and not right(meta[name]):
            raise _damaged(path, f"`{name}` is of the wrong kind")


def _text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= TEXT_LIMIT


def _text_or_none(value: object) -> bool:
    return value is None or _text(value)


def _whole(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _integer(value: object) -> bool:
    return type(value) is int and -1 <= value < 1 << 63


def _flag(value: object) -> bool:
    return type(value) is bool


def _number(value: object) -> bool:
    return type(value) in (int, float)


def _wholes(value: object) -> bool:
    return isinstance(value, list) and all(map(_whole, value))


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _mapping(value: object) -> bool:
    return isinstance(value, dict)


def _versions(value: object) -> bool:
    return isinstance(value, dict) and all(map(_text, value.values()))


def _anything(_value: object) -> bool:
    return True


_META: Mapping[str, Callable[[object], bool]] = {
    "rank": _whole,
    "local_rank": _whole,
    "world_size": _whole,
    "pid": _whole,
    "argv": _texts,
    "modules": _texts,
    "versions": _versions,
    "platform": _text,
    "started": _number,
    "finished": _flag,
    "events": _whole,
    "lost_events": _whole,
    "probe_error_count": _whole,
}

_SYMBOLS: Mapping[str, Mapping[str, Callable[[object], bool]]] = {
    "api": {"name": _text, "type": _text, "library": _text},
    "ctx": {"autocast": _text_or_none, "grad": _flag, "inference": _flag, "backward": _flag, "compiled": _flag},
    "args": {"values": _mapping},
    "ret": {"value": _anything},
    "src": {"file": _text, "line": _whole, "function": _text},
    "root": {"name": _text, "class": _text, "library": _text, "ordinal": _integer},
    "mod": {"path": _text, "class": _text},
    "opt": {"class": _text, "library": _text, "ordinal": _integer},
    "group": {"index": _whole, "params": _wholes, "hyper": _mapping, "seq": _whole},
    "var": {"kind": _text, "name": _text, "shape": _wholes, "dtype": _text, "group": _integer},
    "thread": {"name": _text},
    "measure": {"name": _text},
    "slot": {"name": _text, "dtype": _text, "shape": _wholes},
}
"""The fields of each kind that are no references; all of `_REQUIRED` must be there."""

_REQUIRED = {
    "api": ("name", "type"),
    "src": ("file", "line"),
    "root": ("name", "ordinal"),
    "mod": ("root", "path"),
    "opt": ("class",),
    "group": ("opt", "index", "params", "seq"),
    "var": ("kind", "name"),
    "measure": ("name",),
    "slot": ("name",),
}

_REFERENCES = {
    "args": {"api": "api"},
    "mod": {"root": "root"},
    "group": {"opt": "opt", "params": "var"},
    "var": {"root": "root", "opt": "opt", "same": "var"},
}
"""Fields that are ids of another kind, 0 for none."""


def _check_symbols(path: Path) -> Mapping[str, int]:
    """How many symbols of each kind there are, entry 0 included."""
    counts = dict.fromkeys(fmt.SYMBOL_KINDS, 1)
    highest = dict.fromkeys(fmt.SYMBOL_KINDS, 0)
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            symbol = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _damaged(path, f"line {number} is no JSON ({error})") from error
        kind = symbol.get("k") if isinstance(symbol, dict) else None
        if kind not in counts:
            raise _damaged(path, f"line {number} is no symbol of this format")
        # Consecutive numbers bound the tables by the length of the file.
        if type(symbol.get("i")) is not int or symbol["i"] != counts[kind]:
            raise _damaged(path, f"line {number} is not number {counts[kind]} of its kind")
        counts[kind] += 1
        _check_fields(path, number, symbol, kind, highest)
    for kind, reached in highest.items():
        if reached >= counts[kind]:
            raise _damaged(path, f"it refers to number {reached} of `{kind}`, and there are {counts[kind] - 1}")
    return counts


def _check_fields(path: Path, number: int, symbol: Mapping[str, Any], kind: str, highest: dict[str, int]) -> None:
    for name in _REQUIRED.get(kind, ()):
        if name not in symbol:
            raise _damaged(path, f"line {number} lacks `{name}`")
    for name, right in _SYMBOLS[kind].items():
        if name in symbol and not right(symbol[name]):
            raise _damaged(path, f"line {number}: `{name}` is of the wrong kind")
    for name, other in _REFERENCES.get(kind, {}).items():
        value = symbol.get(name, 0)
        ids = value if isinstance(value, list) else [value]
        if not _wholes(ids):
            raise _damaged(path, f"line {number}: `{name}` is no reference")
        highest[other] = max([highest[other], *ids])


def _table(path: Path, layout: np.dtype[np.void]) -> npt.NDArray[np.void]:
    data = path.read_bytes()
    if len(data) % layout.itemsize:
        raise _damaged(path, "it ends in the middle of a row")
    return np.frombuffer(data, dtype=layout)


def _check_ids(path: Path, rows: npt.NDArray[np.void], columns: Mapping[str, str], counts: Mapping[str, int]) -> None:
    for column, kind in columns.items():
        if len(rows) and int(rows[column].max()) >= counts[kind]:
            raise _damaged(path, f"a row refers to a `{kind}` that is not there")


def _check_events(path: Path, counts: Mapping[str, int]) -> None:
    events = _table(path, fmt.EVENT)
    kind, seq = events["kind"], events["seq"]
    if not np.isin(kind, (fmt.CALL, fmt.CHANGE, fmt.MEASURE)).all():
        raise _damaged(path, "a row is of no known kind")
    _check_ids(path, events, {name: name for name in ("ctx", "ret", "src", "mod", "opt")}, counts)
    for which, columns in (
        (fmt.CALL, {"subject": "api", "args": "args"}),
        (fmt.CHANGE, {"subject": "var"}),
        (fmt.MEASURE, {"subject": "measure", "args": "var"}),
    ):
        _check_ids(path, events[kind == which], columns, counts)
    states = events[kind == fmt.CHANGE]
    if len(states) and max(int(states["old"].max()), int(states["new"].max())) >= len(fmt.STATE_NAMES):
        raise _damaged(path, "a row has a state that does not exist")
    if (np.diff(np.sort(seq)) == 0).any() or (events["end"] < seq).any():
        raise _damaged(path, "its rows are not in an order of time")
    # With every parent before its children no chain of parents can lead back to itself.
    if (events["parent"] >= np.maximum(seq, 1)).any():
        raise _damaged(path, "a call lies within one that begins later")
