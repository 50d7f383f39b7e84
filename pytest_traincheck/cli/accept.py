"""`traincheck accept`: exceptions on file for what the last check found."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_traincheck.bundle import is_bundle, open_bundle
from pytest_traincheck.cli import options, streams
from pytest_traincheck.cli.status import Status
from pytest_traincheck.config import Config
from pytest_traincheck.report.layout import wrap
from pytest_traincheck.text import plural
from pytest_traincheck.workflow import last_check
from pytest_traincheck.workflow.accept import AcceptError, accept, resolve, terms


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("accept", help="write exceptions for what the last check found into the configuration")
    parser.add_argument("ids", nargs="+", metavar="ID", help="incident, or the id or subject of a broken rule")
    parser.add_argument(
        "--pipeline", action="append", default=[], metavar="NAME", help="pipeline of that check (default: the only one)"
    )
    parser.add_argument("--owner", required=True, metavar="WHO", help="who is responsible for it")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why it is right for now")
    parser.add_argument("--expires", required=True, type=options.day, metavar="DATE", help="last day, as 2027-01-31")
    parser.add_argument(
        "--json-file", type=Path, metavar="FILE", help="what --json wrote, or a bundle (default: the last check here)"
    )
    options.add_config(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    config = options.configuration(arguments)
    today = datetime.datetime.now(datetime.timezone.utc).date()
    wanted = terms(arguments.owner, arguments.reason, arguments.expires, today)
    pipeline = _pipeline(config, arguments.pipeline)
    found = resolve(arguments.ids, _document(config, pipeline, arguments.json_file), pipeline)
    done = accept(config, pipeline, found, wanted)
    for item in found:
        streams.tell("\n".join(wrap(f"{item.asked}: {item.title}", streams.width(), indent="  ", first="")))
    parts = [
        f"{plural(len(rules), 'exception')} {what}"
        for rules, what in ((done.added, "added"), (done.renewed, "renewed"), (done.kept, "there already"))
        if rules
    ]
    streams.tell(f"{config.source}: {', '.join(parts)}, until {wanted.expires}. Commit the file.")
    return Status.CLEAN


def _pipeline(config: Config, names: Sequence[str]) -> str:
    specs = options.chosen(config, names)
    if len(specs) > 1:
        raise AcceptError(
            f"{config.source} configures several pipelines ({', '.join(config.pipelines)}). Name one with --pipeline."
        )
    return specs[0].name


def _document(config: Config, pipeline: str, file: Path | None) -> Mapping[str, Any]:
    if file is not None and is_bundle(file):
        with open_bundle(file) as bundle:
            return bundle.report
    document = last_check.recall(config, pipeline) if file is None else last_check.read(file)
    if document is not None:
        return document
    if file is None:
        raise AcceptError(
            f"no check of {pipeline!r} is remembered on this machine. Run `traincheck check {pipeline}` here first, "
            "or give the file that `--json` wrote elsewhere with --json-file."
        )
    raise AcceptError(f"{file} is no JSON object that can be read. Give the file that `traincheck check --json` wrote.")
