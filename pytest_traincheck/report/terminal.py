"""What a person sees after a check: verdict, incidents with the cause first, counts, errors, timing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.cells import chop_cells
from rich.text import Text

from pytest_traincheck.check.result import CheckResult, Outcome, RunError
from pytest_traincheck.detail import Detail
from pytest_traincheck.report import wording
from pytest_traincheck.report.incident import LABEL_WIDTH, Line, incident_lines
from pytest_traincheck.report.layout import wrap
from pytest_traincheck.text import one_line, plural

_EXPECTED = "fails as expected (xfail)"
_REASONS_SHOWN = 3
_STYLES = {Outcome.PASS: "bold green", Outcome.FAIL: "bold red", Outcome.ERROR: "bold magenta"}
_WARNING_STYLE = "bold yellow"


def render_result(
    result: CheckResult, width: int = 80, *, expected: bool = False, detail: Detail = Detail.USUAL
) -> Text:
    """The result as styled text with no line wider than `width` cells; `.plain` is the same without styles.

    A failure that was `expected` fails nothing, so it is not called one.
    """
    lines = list(_verdict(result, width, expected=expected))
    for incident in result.incidents:
        lines += [*([("", "")] if detail is not Detail.BRIEF else []), *incident_lines(incident, width, detail)]
    if detail is Detail.BRIEF:
        return styled([*lines, *_brief(result, width)])
    for warning in result.warnings:
        lines += [("", ""), *labelled("warning", wording.warning(warning), width, _WARNING_STYLE)]
    if result.verdicts or result.errors or result.notes or result.renamed:
        lines.append(("", ""))
    lines += _counts(result, width, detail)
    agreement = wording.agreement(result)
    if agreement:
        lines += labelled("replay", agreement, width, "dim")
    coverage = wording.coverage(result)
    if coverage:
        lines += labelled("coverage", coverage, width, "dim")
    for excused in wording.excused(result):
        lines += labelled("excused", excused, width, "dim")
    for error in result.errors:
        lines += error_lines(error, width, detail)
    for note in result.notes:
        lines += labelled("note", one_line(note), width)
    if result.renamed:
        most = len(result.renamed) if detail is Detail.FULL else wording.RENAMED_SHOWN
        lines += labelled("renamed", one_line(wording.renamed(result, most)), width, "dim")
    lines += _timing(result, width)
    return styled(lines)


def _brief(result: CheckResult, width: int) -> Iterator[Line]:
    """What fails beside incidents."""
    for warning in result.warnings:
        if warning.fails:
            yield from labelled("warning", wording.warning(warning), width, _WARNING_STYLE)
    for error in result.errors:
        yield from error_lines(error, width, Detail.BRIEF)


def styled(lines: Iterable[Line]) -> Text:
    """Lines as one text."""
    text = Text(no_wrap=True, overflow="ignore")
    for number, (line, style) in enumerate(lines):
        # Pieces are appended as text, so square brackets in a title are never read as markup.
        text.append(("\n" if number else "") + line, style or None)
    return text


def _verdict(result: CheckResult, width: int, *, expected: bool) -> Iterator[Line]:
    summary = wording.verdict_summary(result)
    word, style = (_EXPECTED, "bold yellow") if expected else (wording.verdict_word(result), _STYLES[result.outcome])
    head = f"{one_line(result.pipeline)}: {word}" + (f" - {summary}" if summary else "")
    for line in wrap(head, width, indent="  ", first=""):
        yield line, style


def labelled(label: str, text: str, width: int, style: str = "") -> Iterator[Line]:
    """A text behind its label, which stands in the first column."""
    for line in wrap(text, width, indent=" " * LABEL_WIDTH, first=_lead(label)):
        yield line, style


def _lead(label: str) -> str:
    return (f"{label}:" if label else "").ljust(LABEL_WIDTH)


def _counts(result: CheckResult, width: int, detail: Detail) -> Iterator[Line]:
    if not result.verdicts:
        return
    yield from labelled("rules", wording.counts(result), width)
    reasons = wording.reasons(result)
    shown = len(reasons) if detail is Detail.FULL else _REASONS_SHOWN
    for reason, count in reasons[:shown]:
        for line in wrap(f"{count} {reason}", width, indent=" " * (LABEL_WIDTH + 2), first=" " * LABEL_WIDTH + "- "):
            yield line, "dim"
    if len(reasons) > shown:
        yield " " * LABEL_WIDTH + f"- and {plural(len(reasons) - shown, 'more reason')}", "dim"


def error_lines(error: RunError, width: int, detail: Detail = Detail.USUAL) -> Iterator[Line]:
    """What happened to a run, what to do now, and the last lines of its output."""
    side = f"{error.side}: " if error.side else ""
    yield from labelled("error", one_line(f"{side}{error.message}"), width, "bold magenta")
    if error.remedy:
        yield from labelled("do", one_line(error.remedy), width)
    lines = wording.output_lines(error, None if detail is Detail.FULL else wording.OUTPUT_LINES_SHOWN)
    if lines and detail is not Detail.BRIEF:
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
