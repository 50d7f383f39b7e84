"""Turns the signals by which a job is cancelled into an exception, so that every `finally` cleans up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _exit(number: int) -> BaseException:
    return SystemExit(128 + number)


@contextmanager
def exit_on_termination(leaving: Callable[[int], BaseException] = _exit) -> Iterator[None]:
    """Within the block SIGTERM and SIGHUP raise `SystemExit(128 + number)` and SIGINT raises `KeyboardInterrupt`.

    `leaving` gives another exception in place of `SystemExit`.

    From then to the end of the block all three are ignored, also by programs that are started meanwhile (git, to
    remove a worktree): whoever presses Ctrl-C a second time must not be left with half of the cleaning up, which takes
    seconds. Does nothing outside the main thread, where Python allows no handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def leave(number: int, _frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise leaving(number)

    for number, handler in before.items():
        # What the caller of this program chose to ignore (nohup) stays ignored.
        if handler is not signal.SIG_IGN:
            signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: a handler that was not installed from Python cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
