"""Small things that every sentence is made with."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from pytest_traincheck.printable import UNPRINTABLE

ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""What a program writes to colour its output or to move the cursor."""


def one_line(text: str) -> str:
    """`text` on one line, without characters that do not print."""
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    kept = (" " if character.isspace() else character for character in ESCAPE_SEQUENCE.sub("", text))
    visible = "".join(character for character in kept if unicodedata.category(character) not in UNPRINTABLE)
    return " ".join(visible.split())


def plural(count: int, noun: str) -> str:
    """ "1 rule", "2 rules"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def steps_listed(steps: Sequence[int], limit: int = 8) -> str:
    """ "0, 4, 8 and 12"; of many the first, and the last: "0, 1, 2, 3, 4, 5, 6, ... and 40"."""
    shown = [str(step) for step in steps]
    if len(shown) > limit:
        shown = [*shown[: limit - 1], "...", shown[-1]]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
