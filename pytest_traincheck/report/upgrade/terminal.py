"""What a person sees after an upgrade check: the sentence, four verdicts, incidents with causes, versions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from rich.cells import cell_len, chop_cells
from rich.text import Text

from pytest_traincheck.check.attribution import Code, Libraries
from pytest_traincheck.check.result import CheckResult, Outcome
from pytest_traincheck.detail import Detail
from pytest_traincheck.report.incident import render_incident_text
from pytest_traincheck.report.layout import wrap
from pytest_traincheck.report.terminal import render_result, styled
from pytest_traincheck.report.upgrade import wording
from pytest_traincheck.report.upgrade.result import UpgradeResult
from pytest_traincheck.report.wording import next_lines
from pytest_traincheck.text import one_line, plural

_Line = tuple[str, str]

_LABEL = 15
_GAP = 2
_STYLES = {Outcome.PASS: "bold green", Outcome.FAIL: "bold red", Outcome.ERROR: "bold magenta"}
_ROWS = (("old libraries", Libraries.OLD), ("new libraries", Libraries.NEW))
_TITLE_LINES = 6
"""Lines of a top incident in the table; it is written out below."""


def render_upgrade(result: UpgradeResult, width: int = 80, detail: Detail = Detail.USUAL) -> Text:
    """The result as styled text with no line wider than `width` cells."""
    lines: list[_Line] = []
    for line in wrap(wording.headline(result), width, indent="  ", first=""):
        lines.append((line, _STYLES[result.last.outcome]))
    if detail is not Detail.BRIEF:
        lines += [("", ""), *_table(result, width)]
    for incident, cause, call in result.incidents:
        lines += [("", "")] if detail is not Detail.BRIEF else []
        lines += [(line, "bold" if number == 0 else "") for number, line in enumerate(
            render_incident_text(incident, width, detail).split("\n"))]  # fmt: skip
        indent = " " * len(f"{incident.number}. ")
        lines += _labelled("broken by", wording.BROKEN_BY[cause], width, indent, "bold")
        if call is not None:
            lines += _labelled("library", wording.call_text(call), width, indent, "bold")
    for name, broken in _errors(result):
        lines += [("", ""), (f"{name}:", "bold")]
        shown = render_result(CheckResult(result.pipeline, errors=broken.errors), width, detail=detail).plain.split(
            "\n"
        )
        # Behind the verdict, which the head line has, and a blank line.
        lines += [(line, "") for line in shown[1 if detail is Detail.BRIEF else 2 :]]
    if detail is Detail.BRIEF:
        return styled(lines)
    lines += [("", ""), *_versions(result, width)]
    share = result.library_share
    if share is not None:
        lines += _labelled("rules", wording.share_text(share), width)
    for note in (*result.notes, *result.last.notes):
        lines += _labelled("note", one_line(note), width)
    lines += _labelled("new python", one_line(result.new_python), width, style="dim")
    if commands := next_lines(result.last, width):
        lines += [("", ""), *((line, "") for line in commands)]
    return styled(lines)


def _errors(result: UpgradeResult) -> Iterator[tuple[str, CheckResult]]:
    """Runs that failed, by the name of their cell."""
    if result.reference.errors:
        yield "old libraries, golden code", result.reference
    for cell in result.cells:
        if cell.result.errors:
            yield wording.cell_name(cell), cell.result


def _table(result: UpgradeResult, width: int) -> Iterator[_Line]:
    """Libraries down, code across; one column where the code is the same."""
    codes = wording.codes_of(result)
    room = max(10, (width - _LABEL - _GAP * (len(codes) - 1)) // len(codes))
    heads = ["the code" if len(codes) == 1 else f"{code.value} code" for code in codes]
    yield (" " * _LABEL + (" " * _GAP).join(head.ljust(room) for head in heads)).rstrip(), "bold"
    for label, libraries in _ROWS:
        columns = [_cell(result, code, libraries, room) for code in codes]
        for number, parts in enumerate(zip_longest(*columns, fillvalue="")):
            lead = label if number == 0 else ""
            padded = (" " * _GAP).join(part + " " * (room - cell_len(part)) for part in parts)
            yield (lead.ljust(_LABEL) + padded).rstrip(), ""


def _cell(result: UpgradeResult, code: Code, libraries: Libraries, room: int) -> list[str]:
    verdict, detail = wording.cell_text(result, code, libraries)
    lines = wrap(verdict, room)
    if detail:
        text = wrap(one_line(detail), room, indent="  ", first="  ")
        lines += text if len(text) <= _TITLE_LINES else [*text[: _TITLE_LINES - 1], "  ..."]
    return lines


def _versions(result: UpgradeResult, width: int) -> Iterator[_Line]:
    rows, more = wording.versions_shown(result)
    names = max((cell_len(one_line(row.name)) for row in rows), default=0)
    olds = max((cell_len(wording.version_text(row)[0]) for row in rows), default=0)
    label = "versions:".ljust(_LABEL)
    for row in rows:
        old, new = wording.version_text(row)
        asked = "" if row.asked or not any(other.asked for other in rows) else "  (comes along)"
        text = f"{label}{one_line(row.name).ljust(names)}  {old.ljust(olds)} -> {new}{asked}"
        # A column is read downwards, so a line that is too long is cut off rather than wrapped.
        yield text if cell_len(text) <= width else chop_cells(text, width)[0], "bold" if row.asked else ""
        label = " " * _LABEL
    if more:
        yield f"{label}and {plural(more, 'more distribution')}", "dim"


def _labelled(label: str, text: str, width: int, indent: str = "", style: str = "") -> Iterator[_Line]:
    head = indent + f"{label}:".ljust(_LABEL if not indent else 11)
    for line in wrap(text, width, indent=" " * len(head), first=head):
        yield line, style
