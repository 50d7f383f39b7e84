"""A training that is run as if it had been started without us: it writes where we write, and takes our signals."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from pytest_traincheck.launch.command import CommandError
from pytest_traincheck.launch.process import run_tree
from pytest_traincheck.launch.run import (
    RunOutcome,
    RunRequest,
    RunStatus,
    cannot_start,
    judge_ended,
    not_started,
    prepare,
    temporary,
    write_run_file,
)
from pytest_traincheck.launch.run_directory import ForeignDirectoryError
from pytest_traincheck.scratch import ScratchError

_STDOUT, _STDERR = 1, 2
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Training:
    """The process group of a training."""

    def __init__(self) -> None:
        self.signalled: signal.Signals | None = None
        """The signal that we were sent, and passed on."""
        self._leader = 0

    def begun(self, leader: int) -> None:
        """It was started; `leader` is its first process."""
        self._leader = leader

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all of the group."""
        if self._leader:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._leader, number)

    @contextmanager
    def takes_our_signals(self) -> Iterator[None]:
        """Within the block a signal that would end us goes to the training, which may save what it has; a second one
        ends both. Does nothing outside the main thread, where Python allows no handlers.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in _PASSED_ON}

        def pass_on(number: int, frame: FrameType | None) -> None:
            if self.signalled is None:
                self.signalled = signal.Signals(number)
                self.send(self.signalled)
                return
            handler = before[signal.Signals(number)]
            if callable(handler):
                handler(number, frame)

        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, pass_on)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)


def train(request: RunRequest, training: Training, progress: Callable[[float], None]) -> RunOutcome:
    """Run the command once, for as long as it takes. `progress` is called about twice a second; what it raises ends the
    training. Otherwise nothing is raised for what the command does.
    """
    try:
        with ExitStack() as stack:
            tmp = stack.enter_context(temporary(request))
            prepared = prepare(request, tmp)
            write_run_file(request, prepared.shown, prepared.interpreter)
            stack.enter_context(training.takes_our_signals())
            sys.stdout.flush()
            sys.stderr.flush()
            try:
                ended = run_tree(
                    prepared.argv,
                    cwd=request.cwd,
                    env=prepared.env,
                    stdout=stack.enter_context(os.fdopen(os.dup(_STDOUT), "wb")),
                    stderr=stack.enter_context(os.fdopen(os.dup(_STDERR), "wb")),
                    timeout=math.inf,
                    progress=progress,
                    started=training.begun,
                    limits_output=False,
                    attached=True,
                )
            except OSError as error:
                write_run_file(request, prepared.shown, prepared.interpreter, RunStatus.NOT_STARTED)
                raise cannot_start(prepared.argv[0], error) from error
        return judge_ended(request, prepared, ended)
    except CommandError as error:
        return not_started(request, str(error), error.remedy)
    except (ForeignDirectoryError, ScratchError) as error:
        what, _, remedy = str(error).partition(". ")
        return not_started(request, what, remedy)
