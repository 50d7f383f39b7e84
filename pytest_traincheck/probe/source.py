"""Where in the user's code an event began."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType

from .names import is_user_file
from .symbols import Symbols

_MAX_CODES = 20_000


class SourceLines:
    """Finds the innermost frame of the user's code; remembers what it learnt about code objects."""

    def __init__(self, symbols: Symbols) -> None:
        self._symbols = symbols
        self._user: dict[CodeType, bool] = {}
        self._wrappers: set[CodeType] = set()
        self._ids: dict[tuple[CodeType, int], int] = {}
        self._directory = os.getcwd() + os.sep  # noqa: PTH109 - a string prefix is what is needed

    def stop_at(self, wrapper: CodeType) -> None:
        """Frames of `wrapper` are calls on the stack: whoever is called from there has the same line as that call."""
        self._wrappers.add(wrapper)

    def find(self, depth: int, enclosing: int) -> int:
        """`src` id for the frame `depth` above the caller's; `enclosing` is that of the open call around it."""
        frame: FrameType | None = sys._getframe(depth + 1)
        user = self._user
        while frame is not None:
            code = frame.f_code
            known = user.get(code)
            if known is None:
                if len(user) > _MAX_CODES:
                    user.clear()
                    self._ids.clear()
                known = user[code] = is_user_file(code.co_filename)
            if known:
                key = (code, frame.f_lasti)
                found = self._ids.get(key)
                if found is None:
                    found = self._ids[key] = self._intern(frame)
                return found
            if enclosing and code in self._wrappers:
                return enclosing
            frame = frame.f_back
        return enclosing

    def _intern(self, frame: FrameType) -> int:
        code = frame.f_code
        function = getattr(code, "co_qualname", code.co_name)
        return self._symbols.src(code.co_filename.removeprefix(self._directory), frame.f_lineno, function)
