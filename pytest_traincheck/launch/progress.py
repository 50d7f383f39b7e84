"""Tells a person at a terminal what is running; says nothing to a log file."""

from __future__ import annotations

import sys
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from pytest_traincheck.text import one_line


class Progress(Protocol):
    """One thing at a time: started, updated any number of times, finished."""

    def start(self, label: str) -> None:
        """Something begins; `label` says what, e.g. "golden, seed 0: python train.py"."""

    def update(self, seconds: float) -> None:
        """It has been going for so many seconds."""

    def finish(self, text: str) -> None:
        """It has ended; `text` says how."""


class QuietProgress:
    """Says nothing."""

    def start(self, label: str) -> None:
        """Nothing is shown."""

    def update(self, seconds: float) -> None:
        """Nothing is shown."""

    def finish(self, text: str) -> None:
        """Nothing is shown."""


class TerminalProgress:
    """One live line with what is running and for how long; a plain line when it has ended."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._console = Console(file=stream or sys.stderr, highlight=False)
        self._live: Live | None = None
        self._label = ""

    def start(self, label: str) -> None:
        """Show `label` until it is finished."""
        self._stop()
        self._label = one_line(label)
        self._live = Live(
            self._line(0.0), console=self._console, auto_refresh=False, transient=True, redirect_stdout=False,
            redirect_stderr=False,
        )  # fmt: skip
        self._live.start()

    def update(self, seconds: float) -> None:
        """Show the seconds beside the label."""
        if self._live is not None:
            self._live.update(self._line(seconds), refresh=True)

    def finish(self, text: str) -> None:
        """Replace the live line by a lasting one; nothing lasts when `text` is empty."""
        self._stop()
        if text:
            self._console.print(Text(one_line(text), overflow="ellipsis", no_wrap=True))

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _line(self, seconds: float) -> Text:
        return Text(f"{seconds:5.1f}s  {self._label}", overflow="ellipsis", no_wrap=True)


def progress_for(stream: TextIO | None = None) -> Progress:
    """The live line when `stream` (stderr unless given) is a terminal, silence otherwise."""
    stream = stream or sys.stderr
    return TerminalProgress(stream) if stream.isatty() else QuietProgress()
