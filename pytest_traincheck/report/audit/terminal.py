"""What a person sees after an audit: verdict, findings with the worst first, and what was looked at."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from pytest_traincheck.check.audited import Audit, AuditFinding
from pytest_traincheck.check.result import Outcome
from pytest_traincheck.detail import Detail
from pytest_traincheck.report.audit import wording
from pytest_traincheck.report.incident import Line
from pytest_traincheck.report.layout import wrap
from pytest_traincheck.report.terminal import error_lines, labelled, styled
from pytest_traincheck.report.wording import CONSEQUENCES_SHOWN, seconds, warning
from pytest_traincheck.text import one_line

_LABEL_WIDTH = 11
_REASONS_SHOWN = 3
_STYLES = {Outcome.PASS: "bold green", Outcome.FAIL: "bold red", Outcome.ERROR: "bold magenta"}
_LEVEL_STYLES = {"error": "bold red", "warning": "bold yellow"}
_DETAIL_STYLES = {"do": "green"}


def render_audit(audit: Audit, width: int = 80, detail: Detail = Detail.USUAL) -> Text:
    """The audit as styled text with no line wider than `width` cells but links; `.plain` is the same without styles."""
    lines: list[Line] = [
        (line, _STYLES[audit.outcome])
        for line in wrap(f"audit of `{one_line(audit.name)}`: {wording.verdict(audit)}", width, indent="  ", first="")
    ]
    if detail is Detail.BRIEF:
        return styled([*lines, *_brief(audit, width)])
    shown = audit.findings if detail is Detail.FULL else audit.shown
    for finding in shown:
        lines += [("", ""), *_finding(finding, width, detail)]
    lines.append(("", ""))
    if audit.findings:
        lines += _silencing(audit.findings[0], width)
    left_out = len(audit.findings) - len(shown)
    if left_out:
        lines += labelled("more", f"{left_out} more, which come later or weigh less; -v shows all of them", width)
    lines += _looked_at(audit, width, detail)
    for item in audit.silenced:
        lines += labelled("silenced", wording.allowed(item), width, "dim")
    for warned in audit.warnings:
        lines += labelled("warning", warning(warned), width, "bold yellow")
    for error in audit.errors:
        lines += error_lines(error, width, detail)
    for note in audit.notes:
        lines += labelled("note", one_line(note), width)
    parts = [
        f"{label} {seconds(value)}" for label, value in (("run", audit.run_s), ("audit", audit.check_s)) if value > 0
    ]
    if parts:
        lines += labelled("timing", ", ".join(parts), width, "dim")
    return styled(lines)


def _brief(audit: Audit, width: int) -> Iterator[Line]:
    """What was found, a title each, and why there is no audit."""
    for finding in audit.findings:
        yield from _title(finding, width)
    for error in audit.errors:
        yield from error_lines(error, width, Detail.BRIEF)


def render_finding_text(finding: AuditFinding, width: int = 80) -> str:
    """One finding as plain text, with how to silence it, for a test failure."""
    lines = [*_finding(finding, width), *_silencing(finding, width)]
    return "\n".join(line for line, _ in lines)


def _silencing(finding: AuditFinding, width: int) -> Iterator[Line]:
    first, *others = wording.silencing(finding).splitlines()
    yield from labelled("silence", first, width, "dim")
    for line in others:
        yield from labelled("", line, width, "dim")


def _title(finding: AuditFinding, width: int) -> Iterator[Line]:
    mark = f"{finding.incident.number}. "
    head = f"{finding.level} {finding.rule.id}: {one_line(finding.incident.cause.title)}"
    for line in wrap(head, width, indent=" " * len(mark), first=mark):
        yield line, _LEVEL_STYLES[finding.level]


def _finding(finding: AuditFinding, width: int, detail: Detail = Detail.USUAL) -> Iterator[Line]:
    indent = " " * len(f"{finding.incident.number}. ")
    yield from _title(finding, width)
    for label, text in wording.details(finding):
        if label == "link":
            # Broken into lines it could not be followed.
            yield indent + text, "dim"
            continue
        lead = indent + f"{label}:".ljust(_LABEL_WIDTH)
        for line in wrap(text, width, indent=indent + " " * _LABEL_WIDTH, first=lead):
            yield line, _DETAIL_STYLES.get(label, "")
    also = wording.others(finding)
    shown = len(also) if detail is Detail.FULL else CONSEQUENCES_SHOWN
    for text in also[:shown]:
        for line in wrap(text, width, indent=indent + "  ", first=indent + "- "):
            yield line, "dim"
    if len(also) > shown:
        yield f"{indent}- and {len(also) - shown} more", "dim"


def _looked_at(audit: Audit, width: int, detail: Detail) -> Iterator[Line]:
    if not audit.verdicts:
        return
    yield from labelled("rules", wording.counts(audit), width)
    reasons = wording.reasons(audit)
    shown = len(reasons) if detail is Detail.FULL else _REASONS_SHOWN
    for reason, count in reasons[:shown]:
        for line in wrap(f"{count} {reason}", width, indent=" " * (_LABEL_WIDTH + 2), first=" " * _LABEL_WIDTH + "- "):
            yield line, "dim"
    if len(reasons) > shown:
        yield " " * _LABEL_WIDTH + f"- and {len(reasons) - shown} more reasons", "dim"
    yield from labelled("looked at", wording.looked_at(audit), width)
