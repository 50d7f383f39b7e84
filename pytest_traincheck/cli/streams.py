"""Where the command line writes, and how: the one boundary at which everything that comes from outside is made
printable, and where `-q`, `-v` and `--no-color` have their effect.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TextIO, cast

from rich.console import Console, RenderableType
from rich.text import Text

from pytest_traincheck.detail import Detail
from pytest_traincheck.launch.progress import Progress, QuietProgress, progress_for
from pytest_traincheck.printable import PrintableStream, printable


@dataclass(frozen=True)
class Voice:
    """How much a command says, and whether in colours where the terminal has them. Also without `--no-color`, a
    variable `NO_COLOR` that is not empty means none.
    """

    detail: Detail = Detail.USUAL
    color: bool = True


WIDEST = 120
"""Columns of the longest line."""
_USUAL = Voice()
_voice: ContextVar[Voice] = ContextVar("voice", default=_USUAL)


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


@contextlib.contextmanager
def speaking(voice: Voice) -> Iterator[None]:
    """Within the block everything of this file is said in that voice."""
    before = _voice.set(voice)
    try:
        yield
    finally:
        _voice.reset(before)


def detail() -> Detail:
    """How much the command is asked to say."""
    return _voice.get().detail


def width() -> int:
    """Columns to write text in: those of the terminal, but no more than one reads with ease; 100 where there is none
    and `COLUMNS` says nothing else.
    """
    return min(columns(), WIDEST)


def columns() -> int:
    """All columns of the terminal: for tables, and for commands, which are pasted and not read."""
    return shutil.get_terminal_size((100, 24)).columns


def console() -> Console:
    """What prints text and tables as wide as the terminal: in colours on one, plain anywhere else."""
    terminal = sys.stdout.isatty()
    return Console(
        file=styled_output() if terminal else sys.stdout,
        width=columns(),
        highlight=False,
        no_color=True if not terminal or not _voice.get().color else None,
    )


def show(text: RenderableType) -> None:
    """Print what is styled. Lines of a text are as wide as whoever made it wanted them."""
    if sys.stdout.isatty():
        console().print(text)
    elif isinstance(text, Text):
        print(text.plain)
    else:
        # A table is filled up with blanks, which nobody wants in a file.
        out = console()
        with out.capture() as plain:
            out.print(text)
        print("\n".join(line.rstrip() for line in plain.get().splitlines()))


def progress() -> Progress:
    """What tells of runs on stderr: nothing with `-q`."""
    return QuietProgress() if detail() is Detail.BRIEF else progress_for()


def tell(text: str) -> None:
    """What a command did that ended well, on stdout; nothing with `-q`."""
    if detail() is not Detail.BRIEF:
        print(text)


def remark(text: object) -> None:
    """What is good to know, on stderr, as `traincheck: ...`; nothing with `-q`."""
    if detail() is not Detail.BRIEF:
        print(printable(f"traincheck: {text}"), file=sys.stderr, flush=True)


def command_out(line: str) -> None:
    """A workflow command of ours on a line of its own, which nothing may change."""
    print(line, file=styled_output())


def complain(text: object) -> None:
    """An error on stderr, as `traincheck: error: ...`."""
    print(printable(f"traincheck: error: {text}"), file=sys.stderr)
