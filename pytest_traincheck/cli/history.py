"""`traincheck history`: what many checks came to, out of the file that `--history` adds to."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_traincheck.cli import options
from pytest_traincheck.cli.status import Status
from pytest_traincheck.cli.streams import show
from pytest_traincheck.history.record import HistoryError
from pytest_traincheck.history.store import read
from pytest_traincheck.history.story import stories
from pytest_traincheck.report.files import json_text, write_report
from pytest_traincheck.report.history.html import to_text
from pytest_traincheck.report.history.json_report import document
from pytest_traincheck.report.history.terminal import render_history
from pytest_traincheck.workflow.history import sentences


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("history", help="what broke when, what was accepted, what never comes up")
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="what `--history FILE` wrote; several are one",
    )
    parser.add_argument(
        "--pipeline", action="append", default=[], metavar="NAME", help="only this pipeline (repeatable)"
    )
    group = parser.add_argument_group("reports")
    group.add_argument("--json", type=options.output_file, metavar="FILE", help="write the same as JSON")
    options.add_html(group)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    records = read(arguments.files)
    if not records:
        raise HistoryError(f"{arguments.files[0]} holds no run. Add some with `traincheck check --history FILE`.")
    found = stories(records)
    if unknown := set(arguments.pipeline) - {story.name for story in found}:
        known = ", ".join(story.name for story in found)
        raise HistoryError(f"no run of this history has a pipeline {min(unknown)!r}. It has: {known}.")
    found = [story for story in found if not arguments.pipeline or story.name in arguments.pipeline]
    known_sentences = sentences()
    if arguments.json is not None:
        write_report(arguments.json, json_text(document(records, found)), "JSON report")
    if arguments.html is not None:
        write_report(arguments.html, to_text(records, found, known_sentences), "HTML report")
    show(render_history(records, found, known_sentences))
    return Status.CLEAN
