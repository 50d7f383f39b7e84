"""`traincheck collect`: one run to a trace."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pytest_traincheck.check.result import CheckResult, RunError
from pytest_traincheck.cli import options, output, streams
from pytest_traincheck.cli.status import Status
from pytest_traincheck.config import DEFAULT_TIMEOUT, ConfigError
from pytest_traincheck.launch import run_directory
from pytest_traincheck.launch.limit import limited
from pytest_traincheck.launch.run import RunRequest, RunStatus, execute
from pytest_traincheck.observing import extensions
from pytest_traincheck.redaction import redacted
from pytest_traincheck.workflow.files_note import written_notes


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("collect", help="run a command once and record how it trains")
    parser.add_argument("--run", required=True, type=options.command, metavar="CMD", help="what to run")
    parser.add_argument("--output", required=True, type=Path, metavar="RUN_DIR", help="directory for the trace")
    parser.add_argument("--cwd", type=Path, default=Path(), metavar="DIR", help="where to run it")
    parser.add_argument("--seed", type=options.seed, metavar="N")
    parser.add_argument("--seed-arg", type=options.seed_argument, metavar="ARG", help="like '--seed {seed}'")
    parser.add_argument("--seed-env", metavar="NAME", help="environment variable that takes the seed")
    options.add_seed_by(parser)
    parser.add_argument("--python", metavar="EXE", help="interpreter of the run")
    parser.add_argument("--timeout", type=options.seconds, default=DEFAULT_TIMEOUT, metavar="S", help="seconds")
    options.add_steps(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.seed_by is not None and arguments.seed is None:
        raise ConfigError(f"--seed-by {arguments.seed_by} has no seed to begin with. Give one: --seed 0")
    run_dir = arguments.output.absolute()
    # Made here, so that a path which cannot be written is bad input and not a failed run.
    run_directory.require_usable(run_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    if not arguments.cwd.is_dir():
        raise NotADirectoryError(20, "there is no such directory", str(arguments.cwd))
    request = RunRequest(
        command=arguments.run,
        cwd=arguments.cwd.absolute(),
        run_dir=run_dir,
        seed=arguments.seed,
        seed_arg=arguments.seed_arg,
        seed_env=arguments.seed_env,
        seed_by=arguments.seed_by,
        limit=limited(arguments.steps),
        python=arguments.python,
        timeout=arguments.timeout,
        side="collect",
        watched=(arguments.cwd.absolute(),),
        ours=(run_dir,),
        extensions=extensions(),
    )
    progress = streams.progress()
    progress.start(arguments.run)
    try:
        outcome = execute(request, progress.update)
    finally:
        progress.finish("")
    notes = (*outcome.notes, *written_notes("", outcome.written))
    if outcome.status is not RunStatus.OK:
        error = RunError("", outcome.message, outcome.remedy, outcome.output)
        output.show(CheckResult("collect", errors=(error,), notes=notes))
        return Status.RUN_FAILED
    asked = {key: getattr(arguments, key) for key in ("run", "seed", "seed_arg", "seed_env", "seed_by", "steps")}
    asked |= {key: redacted(asked[key]) for key in ("run", "seed_arg") if asked[key] is not None}
    text = json.dumps({**asked, "cwd": str(arguments.cwd)}, indent=1)
    (run_dir / run_directory.COLLECT_FILE).write_text(text + "\n", encoding="utf-8")
    status = _summarise(run_dir)
    for note in notes:
        streams.tell(f"note: {note}")
    return status


def _summarise(run_dir: Path) -> Status:
    from pytest_traincheck.trace import TraceError, load_run
    from pytest_traincheck.trace.show import summarise

    try:
        load_run(run_dir)
    except TraceError as error:
        output.show(CheckResult("collect", errors=(RunError("", str(error)),)))
        return Status.RUN_FAILED
    print(summarise(run_dir, streams.detail()).rstrip("\n"))
    return Status.CLEAN
