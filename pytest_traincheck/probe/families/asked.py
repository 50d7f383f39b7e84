"""Functions of the user's that call a model without gradients and are given whole numbers: what one of these asks for
may be how often the model is called, or how large the result is.

Such functions are found when a model is called from them, and observed from their next call on. A call is written when
it returns and encloses nothing, so that what happens in it is seen as it is without.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any

import torch

from ..context import Call, unseen
from ..names import is_user_file
from ..switches import Switches
from ..symbols import Api
from .base import Parameters, watch

if TYPE_CHECKING:
    from ..install import Probe

KIND = "asked"
"""The type of the calls."""
CALLS = "asked.calls"
_FUNCTIONS, _CALLS = 16, 64
"""Functions that are observed, and calls of each that are written."""
_AROUND, _DEPTH = 3, 40
"""Functions around a model's call that are looked at, and frames in which they are looked for."""


@dataclass(frozen=True)
class Begun:
    """A call that has begun: its arguments in outline, and how often modules had been called before it."""

    arguments: dict[str, Any]
    before: Counter[int]


class Asked(Switches):
    """Finds the functions and writes their calls."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._left = _FUNCTIONS
        self._places: set[int] = set()
        self._seen: dict[int, Any] = {}
        self._called: Counter[int] = Counter()
        self._open = 0

    def called(self, call: Call) -> None:
        """A model was called from outside any module."""
        if self._open:
            self._called[call.mod] += 1
        if self._left and call.src not in self._places and not torch.is_grad_enabled():
            self._places.add(call.src)
            self._look_around(sys._getframe(1))

    def noticed(self, call: Call) -> None:
        """The same, as the compiled core tells it."""
        recorder = self._probe.recorder
        if recorder is not None:
            with unseen(recorder, "looking for functions around a model"):
                self.called(call)

    def _look_around(self, frame: FrameType | None) -> None:
        found = 0
        for _ in range(_DEPTH):
            if frame is None or found == _AROUND:
                return
            code = frame.f_code
            if is_user_file(code.co_filename) and code.co_name != "<module>":
                found += 1
                if self._left and id(code) not in self._seen:
                    self._seen[id(code)] = code
                    function = _function_of(frame)
                    if function is not None and _takes_arguments(code):
                        self._left -= 1
                        self._observe(function)
            frame = frame.f_back

    def _observe(self, function: FunctionType) -> None:
        api = Api(f"{function.__module__}.{function.__qualname__}", KIND, "user")
        parameters, left = Parameters(function), [_CALLS]

        def entered(*args: Any, **kwargs: Any) -> Begun | None:
            if not left[0] or not any(type(value) is int for value in (*args, *kwargs.values())):
                return None
            left[0] -= 1
            begun = Begun(parameters.bind(args, kwargs), self._called.copy())
            self._open += 1
            return begun

        def ended(begun: Begun, result: Any) -> None:
            self._open -= 1
            recorder = self._probe.recorder
            if recorder is None:
                return
            state, arguments = recorder.threads, begun.arguments
            made = max((self._called - begun.before).values(), default=0)
            key = tuple(arguments.items())
            call = recorder.begin(state, api, key, lambda *_: arguments, (), {})
            recorder.measures.take(state, CALLS, call, float(made))
            recorder.end(state, call, result)

        def raised(_: Begun) -> None:
            self._open -= 1

        watch(self._probe, function, entered, ended, raised)
        # Nobody asked for this one: where it cannot be observed (a generator, code without source), nothing is missing.
        self._probe.patches.left_out.pop(function.__qualname__, None)
        self._seen[id(function.__code__)] = function.__code__


def _takes_arguments(code: CodeType) -> bool:
    """Whether a function may be given a number: one that gets nothing but an object is left as it is."""
    given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return bool(code.co_flags & _OPEN) or len(given) > (given[:1] in (("self",), ("cls",)))


_OPEN = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def _function_of(frame: FrameType) -> FunctionType | None:
    """The function whose frame it is, where it can be named from its module; what is defined in a function cannot."""
    code = frame.f_code
    first, *rest = getattr(code, "co_qualname", code.co_name).split(".")
    found = frame.f_globals.get(first)
    for name in rest:
        if not isinstance(found, type):
            return None
        found = next((vars(base)[name] for base in found.__mro__ if name in vars(base)), None)
    for _ in range(_AROUND):  # Decorators keep what they are around.
        if isinstance(found, (staticmethod, classmethod)):
            found = found.__func__
        if type(found) is not FunctionType:
            return None
        if found.__code__ is code:
            return found
        found = vars(found).get("__wrapped__")
    return None
