"""`traincheck list`: the configured pipelines, their goldens and their last checks."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from pytest_traincheck.cli import options
from pytest_traincheck.cli.status import Status
from pytest_traincheck.cli.streams import console
from pytest_traincheck.report.files import json_text, write_report
from pytest_traincheck.text import plural
from pytest_traincheck.workflow.listing import Listed, ListedCheck, ListedGolden, listing

_FORMAT = 1
_VERDICTS = {"pass": "passed", "fail": "failed", "error": "could not be made"}
_UNITS = ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"))


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "list", aliases=["status"], help="the configured pipelines, their goldens and last checks"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the same as JSON")
    options.add_config(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    config = options.configuration(arguments)
    found, now = listing(config), time.time()
    if arguments.json is not None:
        content = {"format": _FORMAT, "store": str(config.store), "pipelines": [asdict(entry) for entry in found]}
        write_report(arguments.json, json_text(content), "JSON report")
    console().print(render(found, now))
    return Status.CLEAN


def render(found: Sequence[Listed], now: float) -> Table:
    """One row for each pipeline; `now` in seconds since the epoch."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in ("pipeline", "golden", "last check here"):
        table.add_column(title, overflow="fold")
    for entry in found:
        table.add_row(Text(entry.name), Text(_golden(entry, now)), Text(_last(entry.last, now)))
    return table


def _golden(entry: Listed, now: float) -> str:
    if entry.ref:
        return f"learned from {entry.ref} at each check"
    if entry.problem:
        return f"cannot be read: {entry.problem}"
    if entry.golden is None:
        return f"none: `traincheck refresh {entry.name}` learns it"
    return _stored(entry.name, entry.golden, now)


def _stored(name: str, golden: ListedGolden, now: float) -> str:
    steps = f" from {plural(golden.steps, 'step')}" if golden.steps else ""
    commit = f", at commit {golden.commit}" if golden.commit else ""
    said = f"{plural(golden.rules, 'rule')}{steps}{commit}, {ago(now - golden.changed)}"
    if golden.fits:
        return said
    return f"{said}; learned with another command or other settings: `traincheck refresh {name}` learns it again"


def _last(last: ListedCheck | None, now: float) -> str:
    if last is None:
        return "none"
    incidents = f" with {plural(last.incidents, 'incident')}" if last.incidents else ""
    compared = f", {last.made} of {plural(last.comparisons, 'comparison')} made" if last.comparisons else ""
    return f"{_VERDICTS.get(last.verdict, last.verdict)}{incidents} {ago(now - last.when)}{compared}"


def ago(seconds: float) -> str:
    """How long ago something was: `3 days ago`."""
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{plural(int(seconds // length), unit)} ago"
    return "just now"
