"""Interned names: every distinct thing is written to `symbols.jsonl` once and then spoken of by its number."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from json import dumps
from typing import Any

from . import summary
from .names import library_of
from .writer import TraceWriter

_MANY = 256
"""Distinct argument lists of one API after which numbers and texts in them are left out."""
_TOO_MANY = 4096
"""Distinct argument lists of one API after which no new one is written."""


Bind = Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]
"""Positional and keyword arguments -> parameter name -> summary key."""


class Api:
    """One canonical API. Compared by identity on the hot path."""

    __slots__ = ("library", "name", "type")

    def __init__(self, name: str, kind: str, library: str | None = None) -> None:
        self.name = name
        self.type = kind
        self.library = library or library_of(name.rpartition(".")[0])


class Symbols:
    """The tables of one process."""

    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self._lock = threading.RLock()
        self._counts: dict[str, int] = {}
        self._texts: dict[str, int] = {}
        self._apis: dict[Api, int] = {}
        self._ctx: dict[Any, int] = {}
        self._args: dict[Any, int] = {}
        self._ret: dict[Any, int] = {}
        self._distinct: dict[tuple[str, int], int] = {}

    @property
    def tables(self) -> tuple[dict[Any, int], ...]:
        """APIs, contexts, argument lists and results by their keys. They stay the same objects."""
        return self._apis, self._ctx, self._args, self._ret

    def new(self, kind: str, fields: dict[str, Any]) -> int:
        """Write a new symbol and return its number."""
        with self._lock:
            number = self._counts.get(kind, 0) + 1
            self._counts[kind] = number
            self._writer.symbol({"k": kind, "i": number, **fields})
            return number

    def once(self, kind: str, fields: dict[str, Any]) -> int:
        """The number of a symbol with these very fields; written when it is new."""
        text = kind + dumps(fields, sort_keys=True)
        with self._lock:
            number = self._texts.get(text)
            if number is None:
                number = self._texts[text] = self.new(kind, fields)
            return number

    def api(self, api: Api) -> int:
        number = self._apis.get(api)
        if number is None:
            fields = {"name": api.name, "type": api.type, "library": api.library}
            number = self._apis[api] = self.once("api", fields)
        return number

    def ctx(self, key: tuple[Any, bool, bool, bool, bool]) -> int:
        found = self._ctx.get(key)
        if found is None:
            autocast, grad, inference, backward, compiled = key
            fields = {
                "autocast": None if autocast is None else summary.dtype_name(autocast),
                "grad": grad,
                "inference": inference,
                "backward": backward,
                "compiled": compiled,
            }
            found = self._ctx[key] = self.once("ctx", fields)
        return found

    def args(self, api: int, key: Any, bind: Bind, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Number for the argument list with this `key`; `bind` names the arguments when it is new."""
        full = (api, key)
        found = self._args.get(full)
        if found is None:
            distinct = self._distinct.get(("args", api), 0)
            if distinct >= _TOO_MANY:
                return 0
            bound = bind(args, kwargs)
            if distinct >= _MANY:
                bound = {name: summary.abstract(value) for name, value in bound.items()}
            values = {name: summary.from_key(value) for name, value in bound.items()}
            found = self.once("args", {"api": api, "values": values})
            if distinct < _MANY:
                self._args[full] = found
                self._distinct["args", api] = distinct + 1
            elif self._counts["args"] == found:
                self._distinct["args", api] = distinct + 1
        return found

    def ret(self, api: int, key: Any) -> int:
        """Number for a result. Python floats are kept in the row's `value`, so only their type is interned."""
        if key is None:
            key = _NONE
        found = self._ret.get((api, key))
        if found is None:
            distinct = self._distinct.get(("ret", api), 0)
            if distinct >= _TOO_MANY:
                return 0
            value = summary.abstract(key) if distinct >= _MANY else key
            found = self.once("ret", {"value": None if value is _NONE else summary.from_key(value)})
            if distinct < _MANY:
                self._ret[api, key] = found
                self._distinct["ret", api] = distinct + 1
        return found

    def src(self, file: str, line: int, function: str) -> int:
        return self.once("src", {"file": file, "line": line, "function": function})

    def group(self, opt: int, index: int, params: Sequence[int], hyper: dict[str, Any], seq: int) -> int:
        fields = {"opt": opt, "index": index, "params": list(params), "hyper": hyper, "seq": seq}
        return self.new("group", fields)


_NONE = ("none",)
