"""Text from outside (traces, goldens, configurations, file names, a program's output) as a terminal may be given it.

Escape sequences move the cursor, rename the window and hide what was written; halves of surrogate pairs, which Python
makes of bytes that are no UTF-8, cannot be encoded at all.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any, TextIO

UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})
"""Unicode categories that steer a terminal, reverse the reading direction or cannot stand in XML."""

_SUSPECT = re.compile(r"[^\t\n\x20-\x7e\xa1-\xac\xae-\u02ff]")
"""What has to be looked at; most texts have nothing of it."""


_COMMAND = re.compile(r"^([^\S\n]*(?:\x1b\[[0-9;]*m)*[^\S\n]*)::|##\[", re.MULTILINE)
"""How GitHub Actions tells a workflow command from other lines of a log; blanks before it are passed over."""


def printable(text: str) -> str:
    """`text` with a picture in place of each character that does not print: `␛` for an escape, `�` where there is none.

    Line feeds and tabs stay. No line of it is a workflow command.
    """
    return without_commands(_SUSPECT.sub(_picture, text))


def without_commands(text: str) -> str:
    """`text` with a blank in `::` at the beginning of a line, so that a CI service takes no line for a command."""
    return _COMMAND.sub(lambda found: "## [" if found[1] is None else f"{found[1]}: :", text)


def printable_line(text: str) -> str:
    """The same on one line: a line feed or a tab becomes a picture as well."""
    return printable(text.replace("\n", "␊").replace("\t", "␉"))


def _picture(match: re.Match[str]) -> str:
    character = match.group()
    if unicodedata.category(character) not in UNPRINTABLE:
        return character
    number = ord(character)
    if number < 0x20:
        return chr(0x2400 + number)
    return "␡" if number == 0x7F else "�"


class PrintableStream:
    """A text stream that writes nothing but what prints, in the encoding that the stream has.

    `styled` is the stream itself, for text that is printable already and whose styles are our own.
    """

    def __init__(self, stream: TextIO) -> None:
        self.styled = stream

    def write(self, text: str) -> int:
        shown = printable(text)
        encoding = getattr(self.styled, "encoding", None) or "utf-8"
        self.styled.write(shown.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.styled, name)
