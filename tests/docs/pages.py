"""The pages of the documentation, and the fenced blocks in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = (
    README,
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
    ROOT / "ci" / "README.md",
)

_LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]+)?\)")
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


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """Links of a page to files or headings that do not exist."""
    found = []
    for target, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
        file = page.parent / target
        if target.startswith("http") or (file.exists() and (not anchor or anchor[1:] in _anchors(file))):
            continue
        found.append(target + anchor)
    return found
