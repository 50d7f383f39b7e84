"""The pages of the documentation, and the fenced blocks in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")), ROOT / "ci" / "README.md")

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, empty for commands and output, and its text."""

    page: Path
    language: str
    text: str


def blocks(page: Path, language: str | None = None) -> list[Block]:
    """The blocks of a page, in order; those of one language when it is given."""
    found = [Block(page, match[1], match[2]) for match in _FENCE.finditer(page.read_text(encoding="utf-8"))]
    return [block for block in found if language is None or block.language == language]


def commands(page: Path, program: str) -> list[str]:
    """Lines of the page's blocks that run `program`."""
    return [
        line
        for block in blocks(page, "")
        for line in block.text.splitlines()
        if line.split(" ", 1)[0] == program and "..." not in line
    ]
