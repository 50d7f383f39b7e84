"""How much a text says."""

from __future__ import annotations

from enum import IntEnum


class Detail(IntEnum):
    """What is asked for with `-q`, with nothing, and with `-v`."""

    BRIEF = -1
    """The verdict, and of each incident what it is and where."""
    USUAL = 0
    """One screen for each incident."""
    FULL = 1
    """Everything that is known."""
