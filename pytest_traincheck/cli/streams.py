"""Where the command line writes: the one boundary at which everything that comes from outside is made printable."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from typing import TextIO, cast

from rich.console import Console

from pytest_traincheck.printable import PrintableStream, printable


@contextlib.contextmanager
def printable_output() -> Iterator[None]:
    """Within the block what is printed is printable. Live lines and colours go to `styled_output`."""
    before = sys.stdout
    sys.stdout = cast(TextIO, PrintableStream(before))
    try:
        yield
        # A disk that is full is told of here, and not by the interpreter when it ends.
        before.flush()
    finally:
        sys.stdout = before


def let_go_of_stdout() -> None:
    """Drop what stdout still holds and cannot be written: the interpreter would complain of it at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def styled_output() -> TextIO:
    """stdout as it is, for text that is printable already and whose styles are our own."""
    return cast(TextIO, getattr(sys.stdout, "styled", sys.stdout))


def console() -> Console:
    """What prints tables as wide as the terminal: in colours on one, plain anywhere else."""
    terminal = sys.stdout.isatty()
    return Console(
        file=styled_output() if terminal else sys.stdout,
        width=shutil.get_terminal_size((100, 24)).columns,
        highlight=False,
        no_color=not terminal or None,
    )


def command_out(line: str) -> None:
    """A workflow command of ours on a line of its own, which nothing may change."""
    print(line, file=styled_output())


def complain(text: object) -> None:
    """An error on stderr, as `traincheck: error: ...`."""
    print(printable(f"traincheck: error: {text}"), file=sys.stderr)
