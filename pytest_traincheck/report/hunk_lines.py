"""Lines of a diff that are too long for a terminal, cut so that one sees what changed in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby, pairwise

from rich.cells import cell_len, chop_cells

_HEAD = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)")


def changed_line(hunk: str, focus: int = 0) -> int:
    """The number, in the candidate's file, of the changed line that is nearest to the place `focus` among the lines of
    a hunk, as in `ChangedLines`. Of a line that was removed it is that of the line in its place.
    """
    changed: list[tuple[int, int]] = []
    number = 1
    # The first line is the head of the hunk, and is not counted.
    for place, line in enumerate(hunk.split("\n"), start=-1):
        if head := _HEAD.match(line):
            number = int(head[1])
            continue
        if line[:1] in ("+", "-"):
            changed.append((abs(place - focus) * 2 + (line[:1] == "-"), max(1, number)))
        number += line[:1] != "-"
    return min(changed)[1] if changed else max(1, number)


def cut(lines: Sequence[str], width: int) -> list[str]:
    """The lines of a hunk in `width` cells each. What is cut off is an ellipsis.

    A removed and an added line that are the same as far as one would see are shown from shortly before the place where
    they part, both from the same column on.
    """
    skipped = [0] * len(lines)
    for removed, added in _replaced(lines):
        for old in removed:
            new = _counterpart(lines, old, added)
            if new is None:
                continue
            parts = _parts_at(lines[old][1:], lines[new][1:])
            if cell_len(lines[old][: parts + 2]) >= width:
                # Half of the width for what is the same, so that one knows where one is.
                skipped[old] = skipped[new] = max(parts - width // 2, 0)
    return [_shown(line, skip, width) for line, skip in zip(lines, skipped, strict=True)]


def _replaced(lines: Sequence[str]) -> list[tuple[list[int], list[int]]]:
    """Places of removed lines with those of the added lines that come in their stead."""
    runs = [(sign, [place for place, _ in run]) for sign, run in groupby(enumerate(lines), lambda item: item[1][:1])]
    return [(old, new) for (one, old), (other, new) in pairwise(runs) if (one, other) == ("-", "+")]


def _counterpart(lines: Sequence[str], old: int, added: Sequence[int]) -> int | None:
    """The added line that is most like a removed one."""

    def likeness(new: int) -> float:
        return SequenceMatcher(None, lines[old][1:], lines[new][1:], autojunk=False).quick_ratio()

    return max(added, key=likeness, default=None)


def _parts_at(one: str, other: str) -> int:
    """How many characters two texts have in common at the beginning."""
    shorter = min(len(one), len(other))
    return next((place for place in range(shorter) if one[place] != other[place]), shorter)


def _shown(line: str, skip: int, width: int) -> str:
    if skip:
        indented = len(line[1:]) - len(line[1:].lstrip())
        line = f"{line[: 1 + min(indented, skip)]}…{line[1 + skip :]}"
    return line if cell_len(line) <= width else chop_cells(line, max(1, width - 1))[0] + "…"
