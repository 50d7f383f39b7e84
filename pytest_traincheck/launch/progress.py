"""Tells a person what is running and how long it will take: a live line at a terminal, a line a minute in a log."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from pytest_traincheck.launch.forecast import Forecast
from pytest_traincheck.printable import printable
from pytest_traincheck.text import one_line


class Progress(Protocol):
    """One thing at a time in each thread: started, updated any number of times, finished."""

    def expect(self, runs: int) -> None:
        """So many runs more are to come."""

    def start(self, label: str) -> None:
        """Something begins; `label` says what, e.g. "golden, seed 0: python train.py"."""

    def update(self, seconds: float) -> None:
        """It has been going for so many seconds."""

    def finish(self, text: str) -> None:
        """It has ended; `text` says how."""

    def ran(self) -> None:
        """What has ended was a run that was expected."""

    def aside(self) -> AbstractContextManager[None]:
        """Within the block nothing is shown: the terminal is somebody else's."""


class QuietProgress:
    """Says nothing."""

    def expect(self, runs: int) -> None:
        """Nothing is shown."""

    def start(self, label: str) -> None:
        """Nothing is shown."""

    def update(self, seconds: float) -> None:
        """Nothing is shown."""

    def finish(self, text: str) -> None:
        """Nothing is shown."""

    def ran(self) -> None:
        """Nothing is shown."""

    def aside(self) -> AbstractContextManager[None]:
        """Nothing is shown."""
        return nullcontext()


quiet = QuietProgress()
"""Progress that says nothing."""


class Counting:
    """What is going on in all threads, and the forecast; what is shown of it is up to those that derive from this."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.RLock()
        self._labels: dict[int, str] = {}
        self._forecast = Forecast(clock)

    def expect(self, runs: int) -> None:
        """So many runs more are to come."""
        with self._lock:
            self._forecast.expect(runs)

    def start(self, label: str) -> None:
        """Show `label` until it is finished."""
        with self._lock:
            self._labels[threading.get_ident()] = one_line(label)
            self._forecast.begin(threading.get_ident())
            self.changed(0.0)

    def update(self, seconds: float) -> None:
        """Show that it goes on."""
        with self._lock:
            self.changed(seconds)

    def finish(self, text: str) -> None:
        """Show `label` no longer."""
        with self._lock:
            self._labels.pop(threading.get_ident(), None)
            self.ended(text)

    def ran(self) -> None:
        """What has ended was a run that was expected."""
        with self._lock:
            self._forecast.end(threading.get_ident())

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Within the block nothing is shown: the terminal is somebody else's."""
        with self._lock:
            self.cleared()
            yield

    def cleared(self) -> None:
        """Nothing of this may be left where somebody else is about to write."""

    def changed(self, seconds: float) -> None:
        """Something has begun, or goes on for so many seconds."""

    def ended(self, text: str) -> None:
        """Something has ended; `text` says how."""

    def line(self) -> str:
        """ "2 of 4 runs, about 40 s left: golden, seed 1: python train.py and 1 more"."""
        first = next(iter(self._labels.values()), "")
        more = f" and {len(self._labels) - 1} more" if len(self._labels) > 1 else ""
        return ": ".join(filter(None, (self._forecast.text(self._labels), f"{first}{more}")))


class TerminalProgress(Counting):
    """One live line with what is running and for how long; a plain line when it has ended."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._console = Console(file=stream or sys.stderr, highlight=False)
        self._live: Live | None = None

    def changed(self, seconds: float) -> None:
        """Show the seconds beside the label."""
        if self._live is None:
            self._live = Live(
                self._shown(seconds), console=self._console, auto_refresh=False, transient=True, redirect_stdout=False,
                redirect_stderr=False,
            )  # fmt: skip
            self._live.start()
        else:
            self._live.update(self._shown(seconds), refresh=True)

    def ended(self, text: str) -> None:
        """Replace the live line by a lasting one; nothing lasts when `text` is empty."""
        if text or not self._labels:
            self.cleared()
        if text:
            self._console.print(Text(one_line(text), overflow="ellipsis", no_wrap=True))

    def cleared(self) -> None:
        """Take the live line away; the next change brings it back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _shown(self, seconds: float) -> Text:
        return Text(f"{seconds:5.1f}s  {self.line()}", overflow="ellipsis", no_wrap=True)


class LogProgress(Counting):
    """A line now and then, so that whoever reads a log knows that something goes on."""

    EVERY_S = 60.0

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._write = write
        self._clock = clock
        self._said = clock()

    def changed(self, seconds: float) -> None:  # noqa: ARG002 - the line has the time that is left
        """Write the line, where a minute has gone by since the last."""
        if self._clock() - self._said >= self.EVERY_S:
            self._said = self._clock()
            self._write(printable(f"traincheck: {self.line()}"))


def progress_for(stream: TextIO | None = None) -> Progress:
    """The live line when `stream` (stderr unless given) is a terminal that can move its cursor, and nobody keeps what
    is written to it; a line a minute otherwise.
    """
    stream = stream or sys.stderr
    # Some CI services run their jobs at a terminal, and keep every state of a live line.
    if stream.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI"):
        return TerminalProgress(stream)
    return LogProgress(lambda line: print(line, file=stream, flush=True))
