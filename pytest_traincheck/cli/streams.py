"""Where the command line writes: the one boundary at which everything that comes from outside is made printable."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TextIO, cast

from pytest_traincheck.printable import PrintableStream, printable


@contextlib.contextmanager
def printable_output() -> Iterator[None]:
    """Within the block what is printed is printable. Live lines and colours go to `styled_output`."""
    before = sys.stdout
    sys.stdout = cast(TextIO, PrintableStream(before))
    try:
        yield
    finally:
        sys.stdout = before


def styled_output() -> TextIO:
    """stdout as it is, for text that is printable already and whose styles are our own."""
    return cast(TextIO, getattr(sys.stdout, "styled", sys.stdout))


def complain(text: object) -> None:
    """An error on stderr, as `traincheck: error: ...`."""
    print(printable(f"traincheck: error: {text}"), file=sys.stderr)
