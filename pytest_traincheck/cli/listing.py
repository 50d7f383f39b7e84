"""`traincheck list`: the configured pipelines, their goldens and their last checks."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict

from rich import box
from rich.table import Table
from rich.text import Text

from pytest_traincheck.cli import options
from pytest_traincheck.cli.status import Status
from pytest_traincheck.cli.streams import detail, show
from pytest_traincheck.detail import Detail
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
    parser.add_argument("--json", metavar="FILE", type=options.output_file, help="write the same as JSON")
    options.add_config(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    config = options.configuration(arguments)
    found, now = listing(config), time.time()
    if arguments.json is not None:
        content = {"format": _FORMAT, "store": str(config.store), "pipelines": [asdict(entry) for entry in found]}
        write_report(arguments.json, json_text(content), "JSON report")
    if detail() is Detail.BRIEF:
        for entry in found:
            print(entry.name)
    else:
        show(render(found, now, whole=detail() is Detail.FULL))
    return Status.CLEAN


def render(found: Sequence[Listed], now: float, *, whole: bool = False) -> Table:
    """One row for each pipeline, on the `whole` with its command; `now` in seconds since the epoch."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in ("pipeline", "golden", "last check here", *(["command"] if whole else [])):
        table.add_column(title, overflow="fold")
    for entry in found:
        texts = (entry.name, _golden(entry, now), _last(entry.last, now), *([entry.command] if whole else []))
        table.add_row(*map(Text, texts))
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
