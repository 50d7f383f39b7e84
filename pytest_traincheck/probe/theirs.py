"""Telling the user's exceptions from our own failures.

Python runs signal handlers between any two instructions, and another thread may raise an exception in this one. Either
may happen while the probe works: a timeout guard that is swallowed never fires.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import sysconfig
from types import CodeType
from typing import Any

import torch

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep  # noqa: PTH100, PTH120 - as below
_STDLIB = tuple(sysconfig.get_paths()[name] + os.sep for name in ("stdlib", "platstdlib"))
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep  # noqa: PTH100, PTH120 - a prefix of file names

_OF_THREADS = frozenset({Exception, InterruptedError, RuntimeError, TimeoutError})
"""Exceptions with which threads end each other's work. Raised by a library, they say what has happened."""


def is_theirs(error: BaseException) -> bool:
    """Whether an exception that came up in the probe's own work was raised by somebody else.

    It was when a signal handler is among its frames, or when it is none of the exceptions that Python, its library and
    torch raise and came up in the probe's code itself. `KeyboardInterrupt` and the like never come from us, nor does an
    exception that says nothing: another thread can raise a class only.
    """
    if not isinstance(error, Exception):
        return True
    frames = []
    traceback = error.__traceback__
    while traceback is not None:
        frames.append(traceback.tb_frame.f_code)
        traceback = traceback.tb_next
    if not frames:
        return False
    if any(code in frames for code in _handlers()):
        return True
    if type(error) in _OF_THREADS and not error.args:
        return frames[-1].co_filename.startswith((_OURS, _TORCH, *_STDLIB))
    return frames[-1].co_filename.startswith(_OURS) and _is_of_others(type(error))


def is_of_an_object(error: BaseException) -> bool:
    """Whether an exception was raised by the code of an object that the probe has asked for something."""
    traceback = error.__traceback__
    if traceback is None:
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return not traceback.tb_frame.f_code.co_filename.startswith((_OURS, _TORCH, *_STDLIB))


def _handlers() -> list[CodeType]:
    """The code of every signal handler that is written in Python."""
    found = (_code_of(signal.getsignal(number)) for number in signal.valid_signals())
    return [code for code in found if code is not None]


def _code_of(handler: Any) -> CodeType | None:
    while isinstance(handler, functools.partial):
        handler = handler.func
    handler = getattr(handler, "__func__", handler)
    if not callable(handler):
        return None
    code = getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _is_of_others(kind: type) -> bool:
    top = kind.__module__.partition(".")[0]
    return top not in ("builtins", "torch") and top not in sys.stdlib_module_names
