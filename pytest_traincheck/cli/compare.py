"""`traincheck compare`: two directories or git refs and a command."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path

from pytest_traincheck.check.result import Commands
from pytest_traincheck.cli import options, output, reports, streams
from pytest_traincheck.config import DEFAULT_SEEDS, DEFAULT_TIMEOUT
from pytest_traincheck.input_error import InputError
from pytest_traincheck.redaction import redacted_words
from pytest_traincheck.workflow.compare import CompareRequest, compare
from pytest_traincheck.workflow.engine import default_engine
from pytest_traincheck.workflow.policy import NO_RULES


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("compare", help="run golden and candidate code now and compare how they train")
    parser.add_argument("--golden", required=True, metavar="DIR|REF", help="directory or git ref that trains correctly")
    parser.add_argument("--candidate", required=True, metavar="DIR|REF", help="directory or git ref to check")
    parser.add_argument("--run", required=True, type=options.command, metavar="CMD", help="what to run inside each")
    parser.add_argument("--candidate-run", type=options.command, metavar="CMD", help="what to run on the candidate")
    parser.add_argument("--seed-arg", type=options.seed_argument, metavar="ARG", help="like '--seed {seed}'")
    parser.add_argument("--seed-env", metavar="NAME", help="environment variable that takes the seed")
    options.add_seed_by(parser)
    parser.add_argument("--seeds", type=options.seeds, default=DEFAULT_SEEDS, help="golden runs (default: 0,1,2)")
    parser.add_argument(
        "--candidate-seed", type=options.seed, metavar="N", help="seed of the candidate (default: first of --seeds)"
    )
    parser.add_argument("--golden-python", metavar="EXE", help="interpreter of the golden runs")
    parser.add_argument("--candidate-python", metavar="EXE", help="interpreter of the candidate run")
    parser.add_argument(
        "--link",
        action="append",
        default=[],
        type=options.link,
        metavar="PATH",
        help="untracked path of the working tree that a git ref sees too, like data (repeatable)",
    )
    parser.add_argument("--timeout", type=options.seconds, default=DEFAULT_TIMEOUT, metavar="S", help="seconds per run")
    options.add_steps(parser)
    parser.add_argument("--name", type=options.name, help="name in reports (default: that of the script)")
    options.add_jobs(parser)
    options.add_strict(parser)
    reports.add_reports(parser, of_checks=True)
    reports.add_github(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    request = CompareRequest(
        golden=arguments.golden,
        candidate=arguments.candidate,
        run=arguments.run,
        cwd=Path.cwd(),
        candidate_run=arguments.candidate_run,
        seed_arg=arguments.seed_arg,
        seed_env=arguments.seed_env,
        seed_by=arguments.seed_by,
        steps=arguments.steps,
        seeds=arguments.seeds,
        candidate_seed=arguments.candidate_seed,
        golden_python=arguments.golden_python,
        candidate_python=arguments.candidate_python,
        timeout=arguments.timeout,
        artifacts=arguments.artifacts,
        name=arguments.name or "",
        rules=replace(NO_RULES, strict=arguments.strict),
        link=tuple(arguments.link),
    )
    try:
        result = compare(request, streams.progress(), default_engine(arguments.jobs or 1))
    except InputError as error:
        return reports.refuse(arguments, [(request.pipeline, error)])
    if result.incidents:
        words = ("traincheck", *redacted_words(arguments.typed))
        result = replace(result, commands=Commands(tuple(map(shlex.quote, words)), ()))
    output.show(result)
    output.show_next(result)
    if result.incidents:
        streams.tell("if intended: nothing is stored here; give the candidate as --golden from now on")
    # A commit is run in a worktree, in the directory that corresponds to this one.
    directory = Path(request.candidate)
    return reports.finish(arguments, [result], {result.pipeline: directory if directory.is_dir() else request.cwd})
