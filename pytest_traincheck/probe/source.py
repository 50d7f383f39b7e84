"""Where in the user's code an event began."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType
from typing import Any

from .names import is_user_file
from .symbols import Symbols

_MAX_CODES = 20_000
_LIBRARY, _USER, _OBSERVED = range(3)


class SourceLines:
    """Finds the innermost frame of the user's code; remembers what it learnt about code objects."""

    def __init__(self, symbols: Symbols) -> None:
        self._symbols = symbols
        self.native: Any = None
        """What has learnt from these tables, see `core`."""
        # By `id`, since the hash of a code object is that of its content. The objects are kept, so no id is used twice.
        self._codes: list[CodeType] = []
        self._kinds: dict[int, int] = {}
        self._ids: dict[tuple[int, int], int] = {}
        self._directory = os.getcwd() + os.sep  # noqa: PTH109 - a string prefix is what is needed

    def stop_at(self, observed: CodeType) -> None:
        """Frames of `observed` are calls on the stack: whoever is called from there has the same line as that call."""
        self._learn(observed, _OBSERVED)
        if self.native is not None:
            self.native.forget()  # it may have been a library's until now

    @property
    def tables(self) -> tuple[dict[int, int], dict[tuple[int, int], int]]:
        """Kinds of code objects by `id`, and `src` ids by `id` and instruction. They stay the same objects."""
        return self._kinds, self._ids

    def _learn(self, code: CodeType, kind: int) -> int:
        if len(self._codes) > _MAX_CODES:
            if self.native is not None:
                self.native.forget()
            kept = [known for known in self._codes if self._kinds.get(id(known)) == _OBSERVED]
            self._kinds.clear()
            self._kinds.update((id(known), _OBSERVED) for known in kept)
            self._ids.clear()
            self._codes = kept
        if self._kinds.get(id(code)) != _OBSERVED:
            self._codes.append(code)
            self._kinds[id(code)] = kind
        return self._kinds[id(code)]

    def find(self, depth: int, enclosing: int) -> int:
        """`src` id for the frame `depth` above the caller's; `enclosing` is that of the open call around it."""
        frame: FrameType | None = sys._getframe(depth + 1)
        kinds = self._kinds
        while frame is not None:
            code = frame.f_code
            kind = kinds.get(id(code))
            if kind is None:
                kind = self._learn(code, _USER if is_user_file(code.co_filename) else _LIBRARY)
            if kind == _USER:
                key = (id(code), frame.f_lasti)
                found = self._ids.get(key)
                if found is None:
                    found = self._ids[key] = self._intern(frame)
                return found
            if kind == _OBSERVED and enclosing:
                return enclosing
            frame = frame.f_back
        return enclosing

    def _intern(self, frame: FrameType) -> int:
        code = frame.f_code
        function = getattr(code, "co_qualname", code.co_name)
        return self._symbols.src(code.co_filename.removeprefix(self._directory), frame.f_lineno, function)
