"""A trace in text: a summary of a run, and its events as an indented call tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pytest_traincheck.detail import Detail
from pytest_traincheck.printable import printable_line
from pytest_traincheck.redaction import redacted_words
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.trace.labels import Labels
from pytest_traincheck.trace.limit import cut_at_limit, left_at_limit
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.reader import read_process
from pytest_traincheck.trace.run import described
from pytest_traincheck.trace.variables import Variables

_CALLS_SHOWN = 20


def processes_of(run_dir: Path) -> tuple[Process, ...]:
    """All observed processes of a run, trained or not, reliable or not.

    Raises:
        TraceError: a trace file cannot be read, or there is none.
    """
    found = tuple(Process(read_process(path)) for path in described(sorted(run_dir.glob("proc-*"))))
    if not found:
        raise TraceError(f"no process was observed in {run_dir}; give the directory of a run")
    return found


def summarise(run_dir: Path, detail: Detail = Detail.USUAL) -> str:
    """What each process of the run did, a paragraph each, or a line."""
    between = "\n" if detail is Detail.BRIEF else "\n\n"
    return between.join(_summary(process, detail) for process in processes_of(run_dir))


@dataclass(frozen=True)
class Summary:
    """What a process did: its name, how it ended, facts by their label, changes by kind, and calls by API."""

    name: str
    state: str
    size: str
    facts: tuple[tuple[str, str], ...]
    changes: tuple[tuple[str, int], ...]
    calls: tuple[tuple[str, int], ...]


def summary(process: Process) -> Summary:
    """The most frequent calls come first."""
    meta = process.raw.meta
    events = process.events
    calls = _often(process.api.take(process.is_call))
    changes = _often(Variables.of(process).kind.take(events["subject"][events["kind"] == fmt.CHANGE]))
    state = "finished" if meta.get("finished") else "did not finish"
    if left_at_limit(meta) or cut_at_limit(meta):
        state = "ended at its limit"
    versions = sorted(meta.get("versions", {}).items())
    return Summary(
        f"process {meta.get('pid')} (rank {process.rank} of {process.world_size})",
        state,
        f"{len(events)} events, {len(events) * fmt.EVENT.itemsize} bytes",
        (
            *([("let go", f"{process.raw.gone} events behind the first steps")] if process.raw.gone else []),
            ("command", " ".join(redacted_words(meta.get("argv", [])))),
            ("libraries", ", ".join(f"{name} {version}" for name, version in versions)),
            ("steps", f"{process.windows} of {process.names.optimizers[process.lead_optimizer] or 'no optimizer'}"),
            ("models", ", ".join(name for name in process.names.roots if name) or "none"),
        ),
        tuple(sorted(changes.items())),
        tuple(calls.most_common()),
    )


def _summary(process: Process, detail: Detail) -> str:
    found = summary(process)
    lines = [
        f"{found.name}, {found.state}: {found.size}",
        *(f"  {label:<10} {text}" for label, text in found.facts),
        "  changes    " + (", ".join(f"{kind} {count}" for kind, count in found.changes) or "none"),
        "  calls",
    ]
    if detail is Detail.BRIEF:
        return printable_line(lines[0])
    shown = len(found.calls) if detail is Detail.FULL else _CALLS_SHOWN
    lines += [f"    {count:7d}  {name}" for name, count in found.calls[:shown]]
    if len(found.calls) > shown:
        lines.append(f"             and {len(found.calls) - shown} more APIs")
    return "\n".join(map(printable_line, lines))


_SHOWN = 20
"""APIs that are listed."""


def print_events(run_dir: Path, limit: int = 200) -> str:
    """The first `limit` events of each process as a call tree."""
    parts = []
    for process in processes_of(run_dir):
        head = f"process {process.raw.meta.get('pid')} (rank {process.rank})"
        parts.append("\n".join(map(printable_line, [head, *_tree(process, limit)])))
    return "\n\n".join(parts)


def _tree(process: Process, limit: int) -> Iterator[str]:
    events = process.events
    depth: dict[int, int] = {-1: -1}
    for row in range(min(limit, len(events))):
        level = depth.get(int(process.parent_row[row]), -1) + 1
        depth[row] = level
        event = events[row]
        where = f"{int(process.window[row]):4d} {process.stage_name(row):5s} {'  ' * level}"
        if int(event["kind"]) == fmt.CALL:
            module = process.module_name(row)
            source = process.raw.symbols["src"][int(event["src"])]
            place = f"  {source['file']}:{source['line']}" if source else ""
            raised = "  raised" if int(event["flags"]) & fmt.RAISED else ""
            yield f"{where}{process.api[row]}{f' [{module}]' if module else ''}{raised}{place}"
        elif int(event["kind"]) == fmt.MEASURE:
            name = process.raw.symbols["measure"][int(event["subject"])].get("name", "")
            number = int(event["args"])
            about = process.names.variables[number] if number else process.module_name(row)
            value = float(event["value"])
            shown = f"{value:.6g}" if value == value else f"{int(event['digest']):016x}"
            yield f"{where}{name}{f' [{about}]' if about else ''}: {shown}"
        else:
            number = int(event["subject"])
            kind = Variables.of(process).kind[number]
            old, new = fmt.STATE_NAMES[int(event["old"])], fmt.STATE_NAMES[int(event["new"])]
            yield f"{where}{kind} {process.names.variables[number]}: {old} -> {new}"
    if len(events) > limit:
        yield f"... {len(events) - limit} more events"


def _often(column: Labels) -> Counter[str]:
    """How often each string stands in a column, in the order of their first places."""
    codes, first, counts = np.unique(column.codes, return_index=True, return_counts=True)
    found = sorted(zip(first.tolist(), codes.tolist(), counts.tolist(), strict=True))
    return Counter({column.values[code]: count for _, code, count in found})
