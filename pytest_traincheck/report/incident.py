"""One incident as text: what was broken, where, the lines that were changed, and what follows from it.

By default it fits one screen, whatever the training has to say: long texts are cut, then the diff.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len, chop_cells

from pytest_traincheck.check.result import ChangedLines, Incident
from pytest_traincheck.detail import Detail
from pytest_traincheck.report import wording
from pytest_traincheck.report.hunk_lines import cut
from pytest_traincheck.report.layout import wrap
from pytest_traincheck.text import one_line, plural

Line = tuple[str, str]
"""A line and its style; an empty style is the terminal's own."""

LABEL_WIDTH = 11
SCREEN = 40
"""Lines that an incident takes at most, unless everything is asked for."""

_TITLE_LINES, _TEXT_LINES = 6, 2
"""Lines of a title, and of any other text, where an incident would not fit one screen."""
_DIFF_LINES = 3
_STYLES = {"golden": "green", "candidate": "red"}
_DIFF_STYLES = {"+": "green", "-": "red"}


def render_incident_text(incident: Incident, width: int = 80, detail: Detail = Detail.USUAL) -> str:
    """One incident as plain text, for a test failure."""
    return "\n".join(line for line, _ in incident_lines(incident, width, detail))


def incident_lines(incident: Incident, width: int, detail: Detail = Detail.USUAL) -> list[Line]:
    """The lines of an incident, none wider than `width` cells."""
    if detail is Detail.BRIEF:
        return _brief(incident, width)
    whole = _Writer(incident, width, full=detail is Detail.FULL)
    lines = [*whole.facts(), *whole.diff(), *whole.consequences()]
    if detail is Detail.FULL or len(lines) <= SCREEN:
        return lines
    short = _Writer(incident, width, text_lines=_TEXT_LINES)
    facts, rest = short.facts(), short.consequences()
    # The place of the diff and the count of what is left out take lines, too.
    room = SCREEN - len(facts) - len(rest) - _TEXT_LINES - 1
    return [*facts, *short.diff(max(_DIFF_LINES, min(room, wording.DIFF_LINES_SHOWN))), *rest]


def _brief(incident: Incident, width: int) -> list[Line]:
    writer = _Writer(incident, width, text_lines=_TEXT_LINES)
    return [*writer.title(), *writer.labelled("where", wording.where(incident.cause))]


class _Writer:
    """Writes the parts of an incident; each text takes at most `text_lines` lines, where that is not None."""

    def __init__(self, incident: Incident, width: int, *, text_lines: int | None = None, full: bool = False) -> None:
        self._incident = incident
        self._width = width
        self._most = text_lines
        self._full = full
        self._mark = f"{incident.number}. "
        self._indent = " " * len(self._mark)

    def title(self) -> Iterator[Line]:
        most = None if self._most is None else _TITLE_LINES
        for line in self._wrapped(one_line(self._incident.cause.title), self._indent, self._mark, most):
            yield line, "bold"

    def facts(self) -> list[Line]:
        """All that is known of the cause but the changed lines."""
        lines = [*self.title()]
        for label, text in wording.details(self._incident.cause, whole=self._full):
            lines += self.labelled(label, text, _STYLES.get(label, ""))
        rule = self._incident.cause.invariant
        about = f"{rule.subject} ({rule.relation}, {self._incident.kind.value}, {rule.id})"
        for label, text in (("rule", about), ("incident", self._incident.id)):
            lines += self.labelled(label, one_line(text), "dim")
        return lines

    def labelled(self, label: str, text: str, style: str = "") -> Iterator[Line]:
        lead = self._indent + f"{label}:".ljust(LABEL_WIDTH)
        for line in self._wrapped(text, self._indent + " " * LABEL_WIDTH, lead, self._most):
            yield line, style

    def diff(self, shown: int = wording.DIFF_LINES_SHOWN) -> list[Line]:
        """A few lines of the hunk, each cut to the width, see `cut`: a diff is read by its columns."""
        diff = self._incident.diff
        if diff is None:
            return []
        lines = [*self.labelled("diff", wording.diff_place(diff))]
        hunk, more = wording.diff_lines(diff, _all_lines(diff) if self._full else shown)
        inner = self._indent + "  "
        for line, text in zip(hunk, cut(hunk, max(1, self._width - len(inner))), strict=True):
            lines.append(((inner + text).rstrip(), _DIFF_STYLES.get(line[:1], "dim")))
        if more:
            lines.append((f"{inner}({plural(more, 'more changed line')})", "dim"))
        return lines

    def consequences(self) -> list[Line]:
        """What was broken because of it."""
        found = self._incident.consequences
        if not found:
            return []
        titles, more = wording.consequences(self._incident, len(found) if self._full else wording.CONSEQUENCES_SHOWN)
        lines = [(f"{self._indent}{plural(len(found), 'consequence')}:", "dim")]
        for title in titles:
            wrapped = self._wrapped(title, self._indent + "  ", self._indent + "- ", self._most)
            lines += [(line, "dim") for line in wrapped]
        return [*lines, *([(f"{self._indent}- and {more} more", "dim")] if more else [])]

    def _wrapped(self, text: str, indent: str, first: str, most: int | None) -> list[str]:
        lines = wrap(text, self._width, indent=indent, first=first)
        if most is None or len(lines) <= most:
            return lines
        last = lines[most - 1]
        kept = last if cell_len(last) <= self._width - 2 else chop_cells(last, max(1, self._width - 2))[0].rstrip()
        return [*lines[: most - 1], f"{kept} …"]


def _all_lines(diff: ChangedLines) -> int:
    return diff.hunk.count("\n") + 1
