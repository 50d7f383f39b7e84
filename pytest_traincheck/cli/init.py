"""`traincheck init`: from a repository with a training script to a pipeline with a golden."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pytest_traincheck.cli import options
from pytest_traincheck.cli.doctor import render
from pytest_traincheck.cli.status import Status
from pytest_traincheck.cli.streams import detail, progress, show, tell
from pytest_traincheck.detail import Detail
from pytest_traincheck.report.files import json_text, write_report
from pytest_traincheck.workflow.doctor import Finding, Level
from pytest_traincheck.workflow.init import Initialised, InitRequest, initialise

_FORMAT = 1


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "init",
        help="find a training script, try it, configure it, learn its golden",
        usage="traincheck init [options] [SCRIPT] [-- COMMAND or ARGUMENTS ...]",
        description="Look for programs that train in this directory, propose a short run of the likeliest, try it, "
        "write it into the configuration, learn its golden, and plant one mistake to see it caught. SCRIPT is "
        "another one than the likeliest. What follows -- are arguments of the SCRIPT, which come before those that are "
        "proposed, or else a command that is taken as it is.",
    )
    parser.add_argument("script", nargs="?", default="", metavar="SCRIPT", help="the script (default: the likeliest)")
    parser.add_argument("--name", type=options.name, metavar="NAME", help="the name of the pipeline")
    parser.add_argument("--dry-run", action="store_true", help="say what would be tried; run and write nothing")
    parser.add_argument("--no-golden", action="store_true", help="write the configuration, and learn no golden")
    parser.add_argument("--seed-arg", type=options.seed_argument, metavar="ARG", help="like '--seed {seed}'")
    options.add_steps(parser)
    parser.add_argument(
        "--link", type=options.link, action="append", default=[], metavar="PATH",
        help="untracked path of the working tree that a git ref sees too, like data (repeatable)",
    )  # fmt: skip
    options.add_jobs(parser, "1")
    parser.add_argument(
        "--json", type=options.output_file, metavar="FILE", help="write what was found and done as JSON"
    )
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    request = InitRequest(
        script=arguments.script,
        words=tuple(arguments.command_words),
        name=arguments.name or "",
        seed_arg=arguments.seed_arg,
        steps=arguments.steps,
        link=tuple(arguments.link),
        dry_run=arguments.dry_run,
        golden=not arguments.no_golden,
        jobs=arguments.jobs or 1,
    )
    found = initialise(Path.cwd(), request, _say, progress())
    if found.commands:
        tell("\nnext:")
    for command in found.commands:
        # One that is longer than the line is still copied as a whole.
        tell(f"  {command.words}\n      {command.when}")
    if arguments.json is not None:
        write_report(arguments.json, json_text(_document(found)), "JSON report")
    return Status.RUN_FAILED if found.failed else Status.CLEAN


def _say(finding: Finding) -> None:
    """Everything that was found, or with `-q` what somebody has to see to."""
    if finding.level is not Level.FINE or detail() is not Detail.BRIEF:
        show(render(finding))


def _document(found: Initialised) -> dict[str, Any]:
    """What a program reads that called us."""
    trial, mutants = found.trial, found.mistake.mutants if found.mistake is not None else ()
    return {
        "format": _FORMAT,
        "verdict": "error" if found.failed else "pass",
        "pipeline": found.proposal.name,
        "run": found.proposal.run,
        "seed_arg": found.proposal.seed_arg,
        "seed_by": found.proposal.seed_by,
        "steps": found.proposal.steps,
        "link": list(found.proposal.link),
        "scripts": [
            {"path": script.path, "evidence": script.evidence.what, "source": script.evidence.place}
            for script in found.found
        ],
        "trial": None
        if trial is None
        else {"seconds": trial.seconds, "steps": trial.steps, "events": trial.events, "ended": trial.ended},
        "rules": found.learned.pipelines[0].rules if found.learned is not None else None,
        "mistake": next(({"kind": item.kind.name, "fate": item.fate.value} for item in mutants), None),
        "written": [str(path) for path in found.written],
        "said": [
            {"subject": said.subject, "level": said.level.value, "said": said.said, "remedy": said.remedy}
            for said in found.said
        ],
        "commands": [command.words for command in found.commands],
    }
