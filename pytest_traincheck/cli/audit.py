"""`traincheck audit`: a short run of any training script, without a golden, held against ready-made rules."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_traincheck.audit_config import DEFAULT_SECONDS, DEFAULT_STEPS
from pytest_traincheck.cli import options, output, reports, streams
from pytest_traincheck.cli.status_of_results import status_of_outcomes
from pytest_traincheck.cli.streams import command_out
from pytest_traincheck.config import Config, ConfigError, load, load_nearest
from pytest_traincheck.input_error import InputError
from pytest_traincheck.launch import run_directory
from pytest_traincheck.report.audit.html import write_html
from pytest_traincheck.report.audit.json_report import write_json
from pytest_traincheck.report.audit.junit import write_junit
from pytest_traincheck.report.audit.publish import publish
from pytest_traincheck.workflow.audit import AuditRequest, audit
from pytest_traincheck.workflow.packs import packs_for


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "audit",
        help="run a script for a few steps, and say what in it contradicts how training works",
        usage="traincheck audit [options] -- COMMAND ...",
        description="Run a training script for a few steps and say what in it contradicts how training works. No "
        "golden and no configuration are needed. What follows -- is the command, as you type it.",
    )
    parser.add_argument(
        "--pack",
        action="append",
        default=[],
        metavar="NAME|FILE",
        help="only this pack (repeatable; default: those that come with pytest-traincheck, and the configuration's)",
    )
    parser.add_argument(
        "--steps",
        type=options.count,
        metavar="N",
        help=f"end the run after N training steps (default: the configuration's, or {DEFAULT_STEPS})",
    )
    parser.add_argument(
        "--seconds",
        type=options.seconds,
        default=DEFAULT_SECONDS,
        metavar="S",
        help=f"end the run with the step that is under way after S seconds (default: {DEFAULT_SECONDS:g})",
    )
    parser.add_argument("--strict", action="store_true", help="fail for warnings, too")
    parser.add_argument("--python", metavar="EXE", help="interpreter of the run")
    parser.add_argument("--keep-trace", type=Path, metavar="DIR", help="keep the trace in DIR")
    options.add_config(parser)
    reports.add_report_files(parser)
    reports.add_github(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        request = _request(arguments)
    except InputError as error:
        return reports.refuse(arguments, [("audit", error)])
    found = audit(request, streams.progress())
    output.show_audit(found)
    for path, write in ((arguments.json, write_json), (arguments.junit, write_junit), (arguments.html, write_html)):
        if path is not None:
            write(path, [found])
    publish(arguments.github, found, Path.cwd(), command_out)
    return status_of_outcomes([found.outcome])


def _request(arguments: argparse.Namespace) -> AuditRequest:
    if not arguments.command_words:
        raise ConfigError(
            "there is no command to audit. Write it as you type it, behind --: traincheck audit -- python train.py"
        )
    keep = arguments.keep_trace.absolute() if arguments.keep_trace is not None else None
    if keep is not None:
        run_directory.require_usable(keep)
    config = _config(arguments)
    return AuditRequest(
        words=tuple(arguments.command_words),
        cwd=Path.cwd(),
        packs=packs_for(arguments.pack, config, Path.cwd()),
        config=config,
        steps=arguments.steps or (config.audit.steps if config is not None else DEFAULT_STEPS),
        seconds=arguments.seconds,
        strict=arguments.strict,
        python=arguments.python,
        keep=keep,
    )


def _config(arguments: argparse.Namespace) -> Config | None:
    """The configuration, where there is one: an audit needs none."""
    return load(Path.cwd(), arguments.config) if arguments.config is not None else load_nearest(Path.cwd())
