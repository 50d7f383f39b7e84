"""What GitHub Actions shows of an audit: an annotation for each finding at its line, and a job summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_traincheck.check.audited import Audit, AuditFinding
from pytest_traincheck.report.audit import wording
from pytest_traincheck.report.github_command import Place, command, position
from pytest_traincheck.report.markdown import inline
from pytest_traincheck.report.wording import warning
from pytest_traincheck.text import one_line


def annotation_lines(audit: Audit, place: Place | None) -> list[str]:
    """Workflow commands, a line each: an error or a warning for each finding, an error where nothing was audited."""
    title = {"title": f"traincheck audit: {one_line(audit.name)} did not run"}
    errors = [command("error", title, one_line(f"{item.message} {item.remedy}")) for item in audit.errors]
    return [*errors, *(_annotation(finding, place) for finding in audit.shown)]


def _annotation(finding: AuditFinding, place: Place | None) -> str:
    cause = finding.incident.cause
    where: Mapping[str, str] = position(cause.source, place)
    lines = [one_line(cause.title), *(f"{label}: {text}" for label, text in wording.details(finding))]
    lines.append(f"silence: {wording.silencing(finding)}")
    return command(finding.level, {**where, "title": f"traincheck audit: {finding.rule.id}"}, "\n".join(lines))


def summary(audit: Audit, room: int) -> str:
    """The job summary as Markdown, of at most `room` bytes; what does not fit is left out from the end."""
    kept, left = [], room
    for block in _blocks(audit):
        left -= len(block.encode(errors="replace")) + 1
        if left < 0:
            break
        kept.append(block)
    return "\n".join([*kept, ""])


def _blocks(audit: Audit) -> Iterator[str]:
    yield f"## traincheck audit of {inline(audit.name)}: {inline(wording.verdict(audit))}\n"
    for error in audit.errors:
        yield f"{inline(error.message)} {inline(error.remedy)}\n"
    if audit.shown:
        yield "| | rule | what was found | why | where |"
        yield "| --- | --- | --- | --- | --- |"
    for finding in audit.shown:
        cause = finding.incident.cause
        facts = dict(wording.details(finding))
        name = f"[{finding.rule.id}]({finding.rule.link})" if finding.rule.link else finding.rule.id
        cells = [finding.level, name, inline(cause.title), inline(facts.get("why", "")), inline(facts["where"])]
        yield f"| {' | '.join(cells)} |"
    yield f"\n- rules: {inline(wording.counts(audit))}"
    for item in audit.warnings:
        yield f"- warning: {inline(warning(item))}"
    for note in audit.notes:
        yield f"- {inline(note)}"
