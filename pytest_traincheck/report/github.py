"""What GitHub Actions shows: a job summary, and one annotation per incident at the line of the source.

Formats: "Workflow commands for GitHub Actions" (escaping of `::error`, ten error annotations a step, 1 MiB of summary).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_traincheck.check.result import CheckResult, Incident, Outcome
from pytest_traincheck.report import wording
from pytest_traincheck.report.audit.github import annotation_lines as audit_lines
from pytest_traincheck.report.github_command import Place, command, position
from pytest_traincheck.report.hunk_lines import changed_line
from pytest_traincheck.report.markdown import fenced, inline
from pytest_traincheck.text import one_line, plural

ANNOTATIONS_LIMIT = 10
"""Error annotations that GitHub keeps of one step."""

SUMMARY_LIMIT = 2**20
"""Bytes of the job summary of one step."""

_DIFF_WIDTH = 300
_RESERVE = 300


def annotation_lines(results: Sequence[CheckResult], places: Mapping[str, Place]) -> list[str]:
    """Workflow commands, a line each: an error for each incident and each run that failed, the causes first.

    When there are more than GitHub keeps, a last line says how many are left out. `places` are by pipeline.
    """
    errors = [line for result in results for line in _annotations(result, places.get(result.pipeline))]
    # GitHub counts warnings and errors apart.
    warnings = [line for result in results for line in _warning_lines(result, places.get(result.pipeline))]
    for result in results:
        if result.audit is not None:
            found = audit_lines(result.audit, places.get(result.pipeline))
            errors += [line for line in found if line.startswith("::error ")]
            warnings += [line for line in found if not line.startswith("::error ")]
    warnings = warnings[:ANNOTATIONS_LIMIT]
    more = len(errors) - ANNOTATIONS_LIMIT
    if more <= 0:
        return [*errors, *warnings]
    note = f"{plural(more, 'more incident')}; the job summary and the reports list all of them."
    return [*errors[:ANNOTATIONS_LIMIT], command("notice", {"title": "traincheck"}, note), *warnings]


def _annotations(result: CheckResult, place: Place | None) -> Iterator[str]:
    for error in result.errors:
        side = f"{error.side}: " if error.side else ""
        text = "\n".join(filter(None, [f"{side}{one_line(error.message)}", one_line(error.remedy)]))
        yield command("error", {"title": f"traincheck {one_line(result.pipeline)}: the pipeline did not run"}, text)
    for incident in result.incidents:
        root = incident.cause
        where = _where(incident, place)
        title = f"traincheck {one_line(result.pipeline)}: {one_line(root.invariant.subject)}"
        facts = [f"{label}: {text}" for label, text in wording.details(root)]
        facts.append(f"rule: {root.invariant.id} ({root.invariant.relation}, {incident.kind.value})")
        yield command("error", {**where, "title": title}, "\n".join([one_line(root.title), *facts]))


def _where(incident: Incident, place: Place | None) -> dict[str, str]:
    """The line of the incident; where the change that brought it is in another file, such as a configuration, the line
    that was changed: GitHub shows an annotation in a pull request where that changes the file.
    """
    diff = incident.diff
    if diff is not None and diff.file != incident.cause.source.rpartition(":")[0]:
        found = position(f"{diff.file}:{changed_line(diff.hunk, diff.focus)}", place)
        if found:
            return found
    return position(incident.cause.source, place)


def _warning_lines(result: CheckResult, place: Place | None) -> Iterator[str]:
    """Warnings as annotations: as an error where the check fails for it."""
    for warning in result.warnings:
        where = position(warning.source, place)
        title = f"traincheck {one_line(result.pipeline)}: {one_line(warning.kind)}"
        yield command("error" if warning.fails else "warning", {**where, "title": title}, one_line(warning.title))


def summary(results: Sequence[CheckResult], room: int = SUMMARY_LIMIT) -> str:
    """The job summary as Markdown, of at most `room` bytes: what does not fit is left out from the end, and counted."""
    kept: list[str] = []
    left = room - _RESERVE
    blocks = [*_overview(results), *(block for result in results for block in _details(result))]
    for number, block in enumerate(blocks):
        left -= len(block.encode(errors="replace")) + 1
        if left < 0:
            kept.append(f"\n_{len(blocks) - number} further lines or blocks do not fit here; the reports have them._\n")
            break
        kept.append(block)
    return "\n".join([*kept, ""])


def _overview(results: Sequence[CheckResult]) -> Iterator[str]:
    failed = sum(result.outcome is Outcome.FAIL for result in results)
    broken = sum(result.outcome is Outcome.ERROR for result in results)
    parts = [f"{count} {word}" for count, word in ((failed, "failed"), (broken, "did not run")) if count]
    verdict = f"{', '.join(parts)} of {plural(len(results), 'pipeline')}" if parts else "passed"
    yield f"## traincheck: {verdict if results else 'nothing was checked'}\n"
    if results:
        yield "| pipeline | verdict | incidents | rules |"
        yield "| --- | --- | --- | --- |"
    for result in results:
        cells = [
            f"`{result.pipeline}`",
            wording.verdict_word(result),
            str(len(result.incidents)),
            wording.counts(result),
        ]
        yield _row(cells)


def _details(result: CheckResult) -> Iterator[str]:
    if not (result.incidents or result.errors or result.notes or result.warnings):
        return
    yield f"\n### {inline(result.pipeline)}\n"
    for error in result.errors:
        side = f"{error.side}: " if error.side else ""
        yield f"{inline(f'{side}{error.message}')} {inline(error.remedy)}\n"
        output = wording.output_lines(error)
        if output:
            yield fenced([line[:_DIFF_WIDTH] for line in output], "text")
    if result.incidents:
        yield "| | what broke | golden | candidate | where |"
        yield "| --- | --- | --- | --- | --- |"
    for incident in result.incidents:
        root = incident.cause
        yield _row([str(incident.number), root.title, root.golden, root.candidate, wording.where(root)])
    for incident in result.incidents:
        if incident.diff is not None:
            yield _diff(incident)
    if commands := wording.next_lines(result):
        yield "\n" + fenced([wording.clean(line) for line in commands], "text")
    remarks = [*(f"warning: {wording.warning(item)}" for item in result.warnings), *result.notes]
    if (covered := wording.coverage(result)) and result.warnings:
        remarks.append(f"coverage: {covered}")
    for number, remark in enumerate(remarks):
        yield ("\n" if not number else "") + f"- {inline(remark)}"


def _diff(incident: Incident) -> str:
    assert incident.diff is not None
    lines = [wording.clean(line)[:_DIFF_WIDTH] for line in incident.diff.hunk.split("\n")]
    place = inline(f"{incident.number}. {incident.diff.file} ({incident.diff.how})")
    # Markdown is read inside a `details` element after an empty line.
    return f"\n<details><summary>diff of {place}</summary>\n\n{fenced(lines, 'diff')}\n\n</details>"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(inline(cell) for cell in cells)} |"
