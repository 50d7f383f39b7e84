"""What a person sees after a check: verdict, incidents with the cause first, counts, errors, timing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.cells import chop_cells
from rich.text import Text

from pytest_traincheck.check.result import ChangedLines, CheckResult, Incident, Outcome, RunError
from pytest_traincheck.report import wording
from pytest_traincheck.report.hunk_lines import cut
from pytest_traincheck.report.layout import wrap
from pytest_traincheck.text import one_line, plural

Line = tuple[str, str]
"""A line and its style; an empty style is the terminal's own."""

_EXPECTED = "fails as expected (xfail)"
_LABEL_WIDTH = 11
_STYLES = {Outcome.PASS: "bold green", Outcome.FAIL: "bold red", Outcome.ERROR: "bold magenta"}
_WARNING_STYLE = "bold yellow"
_DETAIL_STYLES = {"golden": "green", "candidate": "red"}
_DIFF_STYLES = {"+": "green", "-": "red"}


def render_result(result: CheckResult, width: int = 80, *, expected: bool = False) -> Text:
    """The result as styled text with no line wider than `width` cells; `.plain` is the same without styles.

    A failure that was `expected` fails nothing, so it is not called one.
    """
    lines = list(_verdict(result, width, expected=expected))
    for incident in result.incidents:
        lines += [("", ""), *_incident(incident, width)]
    for warning in result.warnings:
        lines += [("", ""), *labelled("warning", wording.warning(warning), width, _WARNING_STYLE)]
    if result.verdicts or result.errors or result.notes or result.renamed:
        lines.append(("", ""))
    lines += _counts(result, width)
    agreement = wording.agreement(result)
    if agreement:
        lines += labelled("replay", agreement, width, "dim")
    coverage = wording.coverage(result)
    if coverage:
        lines += labelled("coverage", coverage, width, "dim")
    for excused in wording.excused(result):
        lines += labelled("excused", excused, width, "dim")
    for error in result.errors:
        lines += error_lines(error, width)
    for note in result.notes:
        lines += labelled("note", one_line(note), width)
    if result.renamed:
        lines += labelled("renamed", one_line(wording.renamed(result)), width, "dim")
    lines += _timing(result, width)
    return styled(lines)


def styled(lines: Iterable[Line]) -> Text:
    """Lines as one text."""
    text = Text(no_wrap=True, overflow="ignore")
    for number, (line, style) in enumerate(lines):
        # Pieces are appended as text, so square brackets in a title are never read as markup.
        text.append(("\n" if number else "") + line, style or None)
    return text


def render_incident_text(incident: Incident, width: int = 80) -> str:
    """One incident as plain text, for a test failure."""
    return "\n".join(line for line, _ in _incident(incident, width))


def _verdict(result: CheckResult, width: int, *, expected: bool) -> Iterator[Line]:
    summary = wording.verdict_summary(result)
    word, style = (_EXPECTED, "bold yellow") if expected else (wording.verdict_word(result), _STYLES[result.outcome])
    head = f"{one_line(result.pipeline)}: {word}" + (f" - {summary}" if summary else "")
    for line in wrap(head, width, indent="  ", first=""):
        yield line, style


def _incident(incident: Incident, width: int) -> Iterator[Line]:
    mark = f"{incident.number}. "
    indent = " " * len(mark)
    for line in wrap(one_line(incident.cause.title), width, indent=indent, first=mark):
        yield line, "bold"
    for label, text in wording.details(incident.cause):
        for line in wrap(
            text, width, indent=indent + " " * _LABEL_WIDTH, first=indent + f"{label}:".ljust(_LABEL_WIDTH)
        ):
            yield line, _DETAIL_STYLES.get(label, "")
    rule = incident.cause.invariant
    about = f"{rule.subject} ({rule.relation}, {incident.kind.value}, {rule.id})"
    for label, text in (("rule", about), ("incident", incident.id)):
        lead = indent + f"{label}:".ljust(_LABEL_WIDTH)
        for line in wrap(one_line(text), width, indent=indent + " " * _LABEL_WIDTH, first=lead):
            yield line, "dim"
    if incident.diff is not None:
        yield from _diff(incident.diff, width, indent)
    if incident.consequences:
        titles, more = wording.consequences(incident)
        yield f"{indent}{plural(len(incident.consequences), 'consequence')}:", "dim"
        for title in titles:
            for line in wrap(title, width, indent=indent + "  ", first=indent + "- "):
                yield line, "dim"
        if more:
            yield f"{indent}- and {more} more", "dim"


def _diff(diff: ChangedLines, width: int, indent: str) -> Iterator[Line]:
    """A few lines of the hunk, each cut to the width, see `cut`: a diff is read by its columns."""
    lead = indent + " " * _LABEL_WIDTH
    yield from (
        (line, "") for line in wrap(wording.diff_place(diff), width, lead, indent + "diff:".ljust(_LABEL_WIDTH))
    )
    lines, more = wording.diff_lines(diff)
    inner = indent + "  "
    for line, text in zip(lines, cut(lines, max(1, width - len(inner))), strict=True):
        yield (inner + text).rstrip(), _DIFF_STYLES.get(line[:1], "dim")
    if more:
        yield f"{inner}({plural(more, 'more changed line')})", "dim"


def labelled(label: str, text: str, width: int, style: str = "") -> Iterator[Line]:
    """A text behind its label, which stands in the first column."""
    for line in wrap(text, width, indent=" " * _LABEL_WIDTH, first=_lead(label)):
        yield line, style


def _lead(label: str) -> str:
    return (f"{label}:" if label else "").ljust(_LABEL_WIDTH)


def _counts(result: CheckResult, width: int) -> Iterator[Line]:
    if not result.verdicts:
        return
    yield from labelled("rules", wording.counts(result), width)
    reasons = wording.reasons(result)
    for reason, count in reasons[:3]:
        for line in wrap(f"{count} {reason}", width, indent=" " * (_LABEL_WIDTH + 2), first=" " * _LABEL_WIDTH + "- "):
            yield line, "dim"
    if len(reasons) > 3:
        yield " " * _LABEL_WIDTH + f"- and {plural(len(reasons) - 3, 'more reason')}", "dim"


def error_lines(error: RunError, width: int) -> Iterator[Line]:
    """What happened to a run, what to do now, and the last lines of its output."""
    side = f"{error.side}: " if error.side else ""
    yield from labelled("error", one_line(f"{side}{error.message}"), width, "bold magenta")
    if error.remedy:
        yield from labelled("do", one_line(error.remedy), width)
    lines = wording.output_lines(error)
    if lines:
        yield "", ""
        yield "  last lines of its output:", "dim"
        for line in lines:
            # Output keeps its own columns: a traceback is read by its indentation.
            body = line.lstrip(" ")
            lead = "  | " + " " * min(len(line) - len(body), width // 3)
            for wrapped in _chopped(body, width, lead):
                yield wrapped, "dim"
        yield "", ""


def _chopped(body: str, width: int, lead: str) -> list[str]:
    """One line of the user's output, its spaces kept; continued lines keep the bar at the left."""
    return [lead + piece for piece in chop_cells(body, max(1, width - len(lead)))] or [lead.rstrip()]


def _timing(result: CheckResult, width: int) -> Iterator[Line]:
    parts = [f"{label} {wording.seconds(value)}" for label, value in wording.timing(result)]
    if parts:
        yield from labelled("timing", ", ".join(parts), width, "dim")
