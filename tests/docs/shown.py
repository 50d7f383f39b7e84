"""The commands that pages show, and what a page says about how they are tested.

A block of commands is run. What stands in a comment right above it says otherwise:

    <!-- parsed: REASON -->          its command lines are only given to the parser
    <!-- parsed (A|B): REASON -->    those that contain A or B are
    <!-- not run: REASON -->         it is no command of this package, or needs what a test has not
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMMENT = re.compile(r"^<!-- (?P<mark>parsed|not run|configuration)(?: \((?P<only>[^)]+)\))?: .+ -->$")
LANGUAGES = frozenset({"", "console", "bash", "sh"})
PROGRAMS = frozenset({"traincheck", "pytest"})
OTHERS = frozenset({"git", "pip", "pipx", "python", "python3", "uv", "tox", "mkdocs", "npx"})


@dataclass(frozen=True)
class Shown:
    """One command line of a page, with its continuation lines joined."""

    page: Path
    line: int
    command: str
    mark: str
    """`parsed`, `not run`, or nothing."""

    @property
    def program(self) -> str:
        return self.command.split(maxsplit=1)[0]


def shown(page: Path) -> Iterator[Shown]:
    """The commands of a page, in order: lines that begin with a program, after `$ ` or without it."""
    inside, mark, only, language = False, "", [""], ""
    joined, began = "", 0
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        bare = line.strip()
        if bare.startswith("```"):
            inside = not inside
            language = bare[3:] if inside else ""
            mark = mark if inside else ""
        elif not inside:
            comment = COMMENT.match(bare)
            if comment:
                mark, only = comment["mark"], (comment["only"] or "").split("|")
            elif bare:
                mark = ""
        elif language in LANGUAGES and mark != "configuration":
            text = bare.removeprefix("$ ")
            if not joined:
                began = number
            joined = f"{joined} {text}".strip() if joined else text
            if joined.endswith("\\"):
                joined = joined[:-1].rstrip()
                continue
            if joined.split(maxsplit=1)[:1] and joined.split()[0] in PROGRAMS | OTHERS and "..." not in joined:
                yield Shown(page, began, joined, mark if any(text in joined for text in only) else "")
            joined = ""
