"""What a refresh did, or why it did nothing, in words."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

from pytest_traincheck.check.result import Incident
from pytest_traincheck.detail import Detail
from pytest_traincheck.report.incident import render_incident_text
from pytest_traincheck.report.layout import wrap
from pytest_traincheck.text import one_line, plural
from pytest_traincheck.workflow.refresh import Relearned
from pytest_traincheck.workflow.refresh_intent import incident_line

WIDTH = 80

Command = Callable[[str, str], str]
"""The command that accepts one incident of a pipeline, by its id, or all of them (an empty id)."""


def refresh_text(
    item: Relearned, *, written: bool, accepted: Sequence[Incident] = (), detail: Detail = Detail.USUAL
) -> str:
    """What became of one golden, as plain text; where rules differ, a block to paste into the pull request follows."""
    head = f"{item.pipeline}: {became(item, written=written)}"
    if detail is Detail.BRIEF:
        return head
    notes = (*item.notes, *(_numbers(item) if written else ()))
    warnings = (f"warning: {one_line(warning)}" for warning in item.warnings)
    blocks = [head, *warnings, _block(item, accepted) if written else "", *(f"note: {note}" for note in notes)]
    return "\n\n".join(block for block in blocks if block)


def became(item: Relearned, *, written: bool, path: str = "") -> str:
    """What became of one golden, in a few words; `path` is what its file is called there, or else its whole path."""
    path = path or str(item.path)
    if item.result.errors:
        return "not refreshed, the golden is as it was"
    if not written:
        return f"learned {plural(item.rules, 'rule')}, wrote nothing"
    if not item.changed:
        return f"no change, {path} is as it was"
    return f"learned {plural(item.rules, 'rule')}, wrote {path}"


def _block(item: Relearned, accepted: Sequence[Incident]) -> str:
    """The Markdown block: what differs, why, and the incidents that were said to be meant."""
    if not item.diff:
        return ""
    head, _, rest = item.diff.partition("\n")
    lines = [head]
    if item.reason:
        lines += ["", *wrap(one_line(item.reason), WIDTH, indent="> ", first="> ")]
    if accepted:
        lines += ["", f"**Accepted**: {plural(len(accepted), 'incident')} against the previous golden.", ""]
        for incident in accepted:
            lines += wrap(f"`{incident.id}` {one_line(incident.cause.title)}", WIDTH, indent="  ", first="- ")
    return "\n".join(lines) + (f"\n{rest}" if rest else "")


def _numbers(item: Relearned) -> tuple[str, ...]:
    files = [path for path in item.files if path != item.path]
    if not files:
        return ()
    listed = ", ".join(map(str, files))
    if item.changed:
        return (f"the numbers of this platform lie beside it; commit both: {listed}",)
    return (f"the numbers of this platform were learned again: {listed}",)


def refused_text(refused: Mapping[str, Sequence[Incident]], command: Command) -> str:
    """The incidents that nobody said were meant, and the commands that accept one, or all."""
    total = sum(map(len, refused.values()))
    blocks = [render_incident_text(incident, width=WIDTH) for incidents in refused.values() for incident in incidents]
    them = "this incident" if total == 1 else "these incidents"
    lines = [f"Not refreshed: {them} against the stored golden would be accepted without a look. Nothing was written."]
    for pipeline, incidents in refused.items():
        for incident in incidents:
            lines += ["", *wrap(incident_line(pipeline, incident), WIDTH, indent="  ", first="")]
            lines.append(f"  intended: {command(pipeline, incident.id)}")
    if total > 1:
        lines += ["", f"All {total} are intended:", f"  {command('', '')}"]
    return "\n".join(["\n\n".join(blocks), "", *wrap(lines[0], WIDTH), *lines[1:]])


def shell(words: Sequence[str]) -> str:
    """A command as it is typed."""
    return shlex.join(words)
