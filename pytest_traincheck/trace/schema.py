"""What the fields of a trace may hold: `docs/trace-format.md` as a check of `meta.json` and of the lines of
`symbols.jsonl`.

What passes can be evaluated without looking again: ids are numbers, names are texts, summaries have their shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

TEXT_LIMIT = 2**20
"""Characters of a text."""

_DEPTH = 8
"""Nesting of summaries; the probe goes two deep."""


def wrong_meta(meta: Mapping[str, Any]) -> str:
    """Which field of a process's description is not what the format allows; empty where all are."""
    return next((name for name, right in _META.items() if name in meta and not right(meta[name])), "")


def wrong_symbol(kind: str, symbol: Mapping[str, Any]) -> str:
    """What is wrong with a symbol of a known kind, e.g. "`name` is of the wrong kind"; empty where nothing is."""
    for name in _REQUIRED.get(kind, ()):
        if name not in symbol:
            return f"it lacks `{name}`"
    for name, right in _SYMBOLS[kind].items():
        if name in symbol and not right(symbol[name]):
            return f"`{name}` is of the wrong kind"
    for name in REFERENCES.get(kind, {}):
        value = symbol.get(name, 0)
        if not _wholes(value if isinstance(value, list) else [value]):
            return f"`{name}` is no reference"
    return ""


def references(kind: str, symbol: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """The symbols that a symbol refers to: their kind, and the highest of their ids."""
    for name, other in REFERENCES.get(kind, {}).items():
        value = symbol.get(name, 0)
        yield other, max(value, default=0) if isinstance(value, list) else value


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
    return (type(value) is int and abs(value) < 1 << 63) or (type(value) is float and math.isfinite(value))


def _wholes(value: object) -> bool:
    return isinstance(value, list) and all(map(_whole, value))


def _sizes(value: object) -> bool:
    # A size that is not known, as that of a symbolic shape, is -1.
    return isinstance(value, list) and all(map(_integer, value))


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _failures(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) and _versions(item) for item in value)


def _versions(value: object) -> bool:
    return isinstance(value, dict) and all(map(_text, value.values()))


def _counts(value: object) -> bool:
    return isinstance(value, dict) and all(map(_whole, value.values()))


def _mesh(value: object) -> bool:
    return value is None or (isinstance(value, dict) and all(_coordinate(item) for item in value.values()))


def _coordinate(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_whole, value))


def _summary(value: object, depth: int = _DEPTH) -> bool:
    if value is None or type(value) is bool or _number(value) or _text(value):
        return True
    if not isinstance(value, dict) or len(value) != 1 or not depth:
        return False
    ((form, content),) = value.items()
    if form == "tensor":
        return isinstance(content, dict) and all(right(content.get(name)) for name, right in _TENSOR.items())
    if form == "type":
        return _text(content)
    if form in ("list", "tuple"):
        return isinstance(content, list) and all(_summary(item, depth - 1) for item in content)
    return form == "dict" and _summaries(content, depth - 1)


def _summaries(value: object, depth: int = _DEPTH) -> bool:
    return isinstance(value, dict) and all(_summary(item, depth) for item in value.values())


_TENSOR: Mapping[str, Callable[[object], bool]] = {
    "dtype": _text,
    "device": _text,
    "shape": _sizes,
    "requires_grad": _flag,
}

_META: Mapping[str, Callable[[object], bool]] = {
    "rank": _whole,
    "local_rank": _whole,
    "world_size": _whole,
    "pid": _whole,
    "ppid": _whole,
    "argv": _texts,
    "cwd": _text,
    "executable": _text,
    "seed": _text_or_none,
    "mesh": _mesh,
    "not_needed": _texts,
    "modules": _texts,
    "versions": _versions,
    "platform": _text,
    "started": _number,
    "ended": _number,
    "finished": _flag,
    "events": _whole,
    "lost_events": _whole,
    "probe_errors": _failures,
    "probe_error_count": _whole,
    "left_out": _counts,
    "unobserved": _versions,
    "extensions": _versions,
    "extensions_in_use": _texts,
}

_SYMBOLS: Mapping[str, Mapping[str, Callable[[object], bool]]] = {
    "api": {"name": _text, "type": _text, "library": _text},
    "ctx": {"autocast": _text_or_none, "grad": _flag, "inference": _flag, "backward": _flag, "compiled": _flag},
    "args": {"values": _summaries},
    "ret": {"value": _summary},
    "src": {"file": _text, "line": _whole, "function": _text},
    "root": {"name": _text, "class": _text, "library": _text, "ordinal": _integer},
    "mod": {"path": _text, "class": _text},
    "opt": {"class": _text, "library": _text, "ordinal": _integer},
    "group": {"index": _whole, "params": _wholes, "hyper": _summaries, "seq": _whole},
    "var": {
        **{"kind": _text, "name": _text, "shape": _sizes, "dtype": _text},
        **{"requires_grad": _flag, "group": _integer},
    },
    "thread": {"name": _text},
    "measure": {"name": _text},
    "slot": {"name": _text, "dtype": _text, "shape": _sizes},
    "attribute": {"values": _summaries, "tensors": _versions, "seq": _whole},
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
    "attribute": ("mod", "values", "seq"),
}

REFERENCES = {
    "args": {"api": "api"},
    "mod": {"root": "root"},
    "attribute": {"mod": "mod"},
    "group": {"opt": "opt", "params": "var"},
    "var": {"root": "root", "opt": "opt", "same": "var"},
}
"""Fields that are ids of another kind, 0 for none."""
