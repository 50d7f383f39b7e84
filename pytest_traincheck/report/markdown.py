"""Text of unknown origin as GitHub-flavoured Markdown: it is shown as it is, and nothing in it becomes markup."""

from __future__ import annotations

import re

from pytest_traincheck.text import one_line

_SPECIAL = re.compile(r"[\\`*_\[\]<>|~&#!$]")


def inline(text: str, limit: int = 500) -> str:
    """One line of text, also for the cell of a table; what stands between backticks stays code.

    At most `limit` characters of the text are kept.
    """
    text = one_line(text)
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    parts = text.split("`")
    if len(parts) % 2 == 0 or any(not part for part in parts[1::2]):
        # Backticks that do not pair are characters like any other.
        return _SPECIAL.sub(r"\\\g<0>", text)
    return "".join(code(part) if number % 2 else _SPECIAL.sub(r"\\\g<0>", part) for number, part in enumerate(parts))


def code(text: str) -> str:
    """A piece of code without backticks, in a line or a cell."""
    # Within a table a pipe ends the cell even between backticks.
    return "`" + text.replace("|", "\\|") + "`"


def fenced(lines: list[str], language: str) -> str:
    """Lines as a block of code, however many backticks they hold."""
    longest = max((len(run) for line in lines for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{language}", *lines, fence])
